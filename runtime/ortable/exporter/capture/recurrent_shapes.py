"""A patch of torch for bypass_export_some_errors: the length of a recurrent layer stays free.
Called by patches.py.

torch.export keeps ``aten::lstm`` and ``aten::gru`` whole, but to find the shapes of their results
it runs torch's decomposition, which is a Python loop over the steps: the length becomes a constant.
The shapes follow from those of the arguments, so they are written down here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from ortable.compat.torch import (
    DispatchKey,
    FakeTensor,
    decomposition_table,
    fake_rules,
    forget_dispatch,
    get_proxy_mode,
)
from ortable.compat.undone import whole
from ortable.exporter.request.program import Undo

_KEYS = (DispatchKey.Autograd, DispatchKey.CompositeImplicitAutograd)


def keep_lengths(applies: Callable[[], bool]) -> Undo:
    """Put the patch in place; returns how to take it away.

    It counts for tensors without data only (those of torch.export), in threads in which
    ``applies()`` is true, and where torch looks for shapes alone: whatever writes a graph, such as
    a decomposition, gets torch's own function.
    """
    kept: list[tuple[Any, DispatchKey, Any]] = []
    rules: dict[Any, Callable[..., Any] | None] = {}

    def change() -> None:
        for operator in _operators():
            for key in _KEYS:
                original = operator.py_kernels.get(key)
                if original is not None:
                    kept.append((operator, key, original))
                    operator.py_kernels[key] = _patched(original, applies)
            # looked at before decompositions, when a program with dynamic sizes is traced again
            rules[operator] = fake_rules().get(operator)
            fake_rules()[operator] = _rule(operator, applies)
            forget_dispatch(operator)

    def undo() -> None:
        for operator, rule in rules.items():
            if rule is None:
                fake_rules().pop(operator, None)
            else:
                fake_rules()[operator] = rule
        for operator, key, original in kept:
            operator.py_kernels[key] = original
            forget_dispatch(operator)

    return whole(change, undo)


def _operators() -> tuple[Any, ...]:
    aten = torch.ops.aten
    return (aten.lstm.input, aten.gru.input, aten.rnn_tanh.input, aten.rnn_relu.input)


def _patched(original: Callable[..., Any], applies: Callable[[], bool]) -> Callable[..., Any]:
    def kernel(*args: Any, **kwargs: Any) -> Any:
        shapes_alone = applies() and get_proxy_mode() is None
        if shapes_alone and not kwargs and len(args) == 9 and isinstance(args[0], FakeTensor):
            return _results(*args)
        return original(*args, **kwargs)

    return kernel


def _rule(operator: Any, applies: Callable[[], bool]) -> Callable[..., Any]:
    """How fake tensors of dynamic size find the shapes; nothing is written into a graph."""

    def rule(mode: Any, *args: Any, **kwargs: Any) -> Any:
        whole = applies() and not kwargs and len(args) == 9
        with mode:
            return _results(*args) if whole else decomposition_table[operator](*args, **kwargs)

    return rule


def _results(
    input: torch.Tensor,
    states: Any,
    params: Any,
    has_biases: bool,
    layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
) -> tuple[torch.Tensor, ...]:
    """The output [steps, batch, width] or [batch, steps, width], then the last states."""
    given = list(states) if isinstance(states, (list, tuple)) else [states]
    width = given[0].shape[-1] * (2 if bidirectional else 1)
    first, second = input.shape[:2]
    if batch_first:  # as torch computes it: turned, computed, and turned back
        output = input.new_empty([second, first, width]).transpose(0, 1)
    else:
        output = input.new_empty([first, second, width])
    return (output, *(state.new_empty(state.shape) for state in given))
