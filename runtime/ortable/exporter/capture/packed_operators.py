"""Define operators for packed sequences, which torch.export can trace.

They compute what torch's own operators for `PackedSequence` do. Those have no shape functions, or
take sizes as plain integers. specs/aten/packed.yaml converts the operators; packed_sequences.py
calls them in place of torch's while a module is captured.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from ortable.compat.torch import check

Tensors = Sequence[torch.Tensor]


@torch.library.custom_op(
    "ortable_packed::pack",
    mutates_args=(),
    schema="(Tensor input, Tensor lengths, bool batch_first) -> (Tensor, Tensor)",
)
def pack_padded(
    input: torch.Tensor, lengths: torch.Tensor, batch_first: bool
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the rows of ``input`` before the ends of their sequences, and the batch sizes."""
    results: tuple[torch.Tensor, torch.Tensor]
    results = torch.ops.aten._pack_padded_sequence(input, lengths, batch_first)
    return results


@pack_padded.register_fake
def _fake_pack(
    input: torch.Tensor, lengths: torch.Tensor, batch_first: bool
) -> tuple[torch.Tensor, torch.Tensor]:
    if any(type(size) is int and size == 0 for size in input.shape):
        raise RuntimeError("Cannot pack empty tensors.")  # as torch says
    steps, batch = input.shape[1 if batch_first else 0], input.shape[0 if batch_first else 1]
    if lengths.dim() != 1:
        raise RuntimeError(f"'lengths' argument should be 1D, but got {lengths.dim()}D")
    if lengths.shape[0] != batch:
        raise RuntimeError(
            "Expected `len(lengths)` to be equal to batch_size, but got "
            f"{lengths.shape[0]} (batch_size={batch})"
        )
    context = torch.library.get_ctx()
    total, longest = context.new_dynamic_size(min=1), context.new_dynamic_size(min=1)
    check(longest <= steps)
    return input.new_empty([total, *input.shape[2:]]), lengths.new_empty([longest])


@torch.library.custom_op(
    "ortable_packed::pad",
    mutates_args=(),
    schema="(Tensor data, Tensor batch_sizes, SymInt batch, bool batch_first, "
    "Scalar padding_value, SymInt total_length) -> (Tensor, Tensor)",
)
def pad_packed(
    data: torch.Tensor,
    batch_sizes: torch.Tensor,
    batch: int,
    batch_first: bool,
    padding_value: float,
    total_length: int,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the padded sequences, with ``total_length`` steps, and their lengths.

    Raises:
        ValueError: ``batch`` is not the number of sequences, which are the rows of the first step.
    """
    if batch != batch_sizes[0]:
        raise ValueError(f"a batch of {batch}, but {int(batch_sizes[0])} sequences are packed")
    results: tuple[torch.Tensor, torch.Tensor]
    results = torch.ops.aten._pad_packed_sequence(
        data, batch_sizes, batch_first, padding_value, total_length
    )
    return results


@pad_packed.register_fake
def _fake_pad(
    data: torch.Tensor,
    batch_sizes: torch.Tensor,
    batch: int,
    batch_first: bool,
    padding_value: float,
    total_length: int,
) -> tuple[torch.Tensor, torch.Tensor]:
    padded = data.new_empty([total_length, batch, *data.shape[1:]])
    if batch_first:
        padded = padded.transpose(0, 1)  # with the strides of torch's result
    return padded, batch_sizes.new_empty([batch])


def _register_network(name: str, states: str, results: str) -> Callable[..., Any]:
    """Register the recurrent network ``name`` over packed sequences."""
    network = getattr(torch.ops.aten, name).data

    def run_network(
        data: torch.Tensor,
        batch_sizes: torch.Tensor,
        hx: Any,
        params: Tensors,
        has_biases: bool,
        num_layers: int,
        dropout: float,
        train: bool,
        bidirectional: bool,
    ) -> Any:
        options = (has_biases, num_layers, dropout, train, bidirectional)
        return network(data, batch_sizes, hx, params, *options)

    operator = torch.library.custom_op(
        f"ortable_packed::{name}",
        run_network,
        mutates_args=(),
        schema=f"(Tensor data, Tensor batch_sizes, {states} hx, Tensor[] params, bool has_biases, "
        "int num_layers, float dropout, bool train, bool bidirectional) -> "
        f"({results})",
    )
    operator.register_fake(_fake_network)
    overload: Callable[..., Any] = getattr(torch.ops.ortable_packed, name).default
    return overload


def _fake_network(
    data: torch.Tensor, batch_sizes: torch.Tensor, hx: Any, params: Tensors, *options: Any
) -> tuple[torch.Tensor, ...]:
    """Return the packed output and the last states, without data."""
    states = [hx] if isinstance(hx, torch.Tensor) else list(hx)
    if data.shape[-1] != params[0].shape[-1]:
        raise RuntimeError(
            f"input.size(-1) must be equal to input_size. Expected {params[0].shape[-1]}, got "
            f"{data.shape[-1]}"
        )
    width = states[0].shape[-1] * (2 if options[-1] else 1)
    last_states = (state.new_empty(state.shape) for state in states)
    return data.new_empty([data.shape[0], width]), *last_states


PACK: Any = torch.ops.ortable_packed.pack.default
PAD: Any = torch.ops.ortable_packed.pad.default
# The networks over packed sequences, by the names of torch's operators.
NETWORKS: Mapping[str, Any] = {
    "lstm": _register_network("lstm", "Tensor[]", "Tensor, Tensor, Tensor"),
    "gru": _register_network("gru", "Tensor", "Tensor, Tensor"),
    "rnn_tanh": _register_network("rnn_tanh", "Tensor", "Tensor, Tensor"),
    "rnn_relu": _register_network("rnn_relu", "Tensor", "Tensor, Tensor"),
}
