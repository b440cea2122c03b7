"""Trace packed sequences: `pack_padded_sequence`, recurrent layers, `pad_packed_sequence`.

strategies.py and recorded_calls.py enter `trace_packed_sequences` while a module runs. A torch
function mode calls the operators of packed_operators.py in place of torch's, and the forwards of
nn.LSTM, GRU and RNN in the module, which would read the batch size from a tensor, are replaced.
"""

from __future__ import annotations

import functools
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch.nn.utils.rnn import PackedSequence
from torch.overrides import TorchFunctionMode
from torch.utils.weak import WeakTensorKeyDictionary

from ortable.compat.torch import GuardOnDataDependentSymNode, check, packed_sequence_functions
from ortable.errors import ExportError
from ortable.exporter.frontend.module_state import replace_forward

from .export_failures import find_user_line, torch_message
from .packed_operators import NETWORKS, PACK, PAD

_LAYERS = (torch.nn.LSTM, torch.nn.GRU, torch.nn.RNN)
# Functions of torch that read a number from data, and what to write instead.
_REMEDIES = {
    "pad_packed_sequence": "total_length must be a size that no sequence can exceed: the length of "
    "the padded input, total_length=x.size(1), or a number up to which Dim('length', max=...) goes",
    "pack_padded_sequence": "pass the tensor of lengths itself, not lengths.tolist()",
    "get_expected_hidden_size": "call nn.GRU or nn.RNN itself, not a subclass with its own forward",
}


class _PackedSequenceMode(TorchFunctionMode):
    """Calls traceable operators in place of torch's operators for packed sequences."""

    def __init__(self) -> None:
        super().__init__()
        self.functions = packed_sequence_functions()
        self.batches: Any = WeakTensorKeyDictionary()  # the number of sequences, by batch_sizes

    def __torch_function__(
        self,
        func: Any,
        types: Any,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        name = self.functions.get(func)
        if name is None or kwargs or torch.compiler.is_dynamo_compiling():
            return func(*args, **(kwargs or {}))
        if name == "pack":
            data, batch_sizes = PACK(*args)
            self.batches[batch_sizes] = args[0].shape[0 if args[2] else 1]
            return data, batch_sizes
        if name == "pad":
            return PAD(args[0], args[1], self.count_sequences(args[1]), *args[2:])
        if not isinstance(args[3], list | tuple):  # the other overload: input, hx, params...
            return func(*args)
        for state in [args[2]] if isinstance(args[2], torch.Tensor) else args[2]:
            check(state.shape[1] == self.count_sequences(args[1]))
        return NETWORKS[name](*args)

    def count_sequences(self, batch_sizes: torch.Tensor) -> Any:
        """Return the number of sequences, the first batch size."""
        if batch_sizes not in self.batches:
            batch = batch_sizes[0].item()
            check(batch >= 1)
            self.batches[batch_sizes] = batch
        return self.batches[batch_sizes]


@contextmanager
def trace_packed_sequences(module: torch.nn.Module) -> Iterator[None]:
    """Make packed sequences traceable by fake tensors in the block, in the code of ``module``."""
    mode = _PackedSequenceMode()
    with ExitStack() as stack:
        for layer in module.modules():
            if isinstance(layer, _LAYERS) and _has_own_forward(layer):
                stack.enter_context(replace_forward(layer, _with_packed_input(layer, mode)))
        stack.enter_context(mode)
        try:
            yield
        except GuardOnDataDependentSymNode as error:
            raise _explain_read(error) or error from error


def _explain_read(error: BaseException) -> ExportError | None:
    """Return the error for a number that torch's functions for packed sequences read from data."""
    functions = {frame.name for frame in traceback.extract_tb(error.__traceback__)}
    remedy = next((text for name, text in _REMEDIES.items() if name in functions), None)
    if remedy is None:
        return None
    return ExportError(
        f"torch.export could not trace a packed sequence\n  at {find_user_line(error)}\n"
        f"  torch says: {torch_message(error)}\nWhat to do: {remedy}"
    )


def _has_own_forward(layer: torch.nn.Module) -> bool:
    """Whether the layer runs torch's own forward."""
    own = any(type(layer).forward is cls.forward for cls in _LAYERS)
    return own and "forward" not in vars(layer)


def _with_packed_input(layer: Any, mode: _PackedSequenceMode) -> Callable[..., Any]:
    """Return the forward of a recurrent layer, which traces a packed input."""
    forward = layer.forward

    @functools.wraps(forward)
    def run_layer(input: Any, hx: Any = None) -> Any:
        if not isinstance(input, PackedSequence):
            return forward(input, hx)
        data, batch_sizes, sorted_indices, unsorted_indices = input
        states: Any = _initial_states(layer, data, mode.count_sequences(batch_sizes))
        if hx is not None:
            _check_states(hx, states)
            states = layer.permute_hidden(hx, sorted_indices)
        elif not isinstance(layer, torch.nn.LSTM):
            (states,) = states
        weights = [weight for weights in layer.all_weights for weight in weights]
        output, *last = NETWORKS[layer.mode.lower()](
            data,
            batch_sizes,
            states,
            weights,
            layer.bias,
            layer.num_layers,
            float(layer.dropout),
            layer.training,
            layer.bidirectional,
        )
        last_states = tuple(last) if isinstance(layer, torch.nn.LSTM) else last[0]
        return (
            PackedSequence(output, batch_sizes, sorted_indices, unsorted_indices),
            layer.permute_hidden(last_states, unsorted_indices),
        )

    return run_layer


def _initial_states(layer: Any, data: torch.Tensor, batch: Any) -> tuple[torch.Tensor, ...]:
    """Return the states of zeros that a layer starts with if the caller gives none."""
    rows = layer.num_layers * (2 if layer.bidirectional else 1)
    widths = [getattr(layer, "proj_size", 0) or layer.hidden_size]
    widths += [layer.hidden_size] * isinstance(layer, torch.nn.LSTM)
    return tuple(
        torch.zeros(rows, batch, width, dtype=data.dtype, device=data.device) for width in widths
    )


def _check_states(hx: Any, expected: Sequence[torch.Tensor]) -> None:
    """Raise RuntimeError, as torch does, for initial states of another size."""
    states = [hx] if isinstance(hx, torch.Tensor) else list(hx)
    for state, like in zip(states, expected, strict=True):
        if state.dim() != like.dim() or state.shape != like.shape:
            raise RuntimeError(f"Expected hidden size {tuple(like.shape)}, got {list(state.shape)}")
