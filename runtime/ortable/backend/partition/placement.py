"""Decide where the nodes of a graph run, and why: in ONNX Runtime, or in torch between sessions."""

from __future__ import annotations

import operator
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import torch
from torch.fx import GraphModule, Node

from ortable.backend.lower.aot_graph import AotGraph, writes_argument
from ortable.backend.roles import Placement
from ortable.compat.torch import HigherOrderOperator, OpOverload, OpOverloadPacket
from ortable.interpreter.assertions import has_inner_assertions
from ortable.interpreter.calls import arguments_by_name, operator_key
from ortable.interpreter.diagnostics.origin import source_line
from ortable.interpreter.diagnostics.unsupported import draft_entry
from ortable.interpreter.operator_cost import find_cost_ratio, is_costly_somewhere
from ortable.interpreter.tables import generated_tables
from ortable_generated.aten import traits

from .rng import emit_rng_calls

_TRAINING_REASON = "its weights change, and torch's kernel is then faster"
# ONNX has no node that raises, and a branch that is not taken has no output
_ASSERTION_REASON = "a graph that it calls has an assertion, which ONNX cannot raise"
_COLLECTIVE_NAMESPACES = ("_c10d_functional", "c10d", "fsdp")


def _placed_by_table(graph: AotGraph) -> dict[Node, str]:
    """Map the nodes that the tables place in torch to the reasons.

    These are entries with `place: torch` and, on the CPU, calls that cost more than torch's kernel
    and, in graphs that train, operators with trait `trained_in_torch`.
    """
    placed = dict(generated_tables().place)
    on_cpu = graph.device == "cpu"
    if graph.kind != "inference" and on_cpu:
        placed.update(dict.fromkeys(traits.TRAINED_IN_TORCH, _TRAINING_REASON))
    reasons: dict[Node, str] = {}
    for node in graph.module.graph.nodes:
        if node.op != "call_function" or has_mixed_floats(node) or _is_nonoverlapping_conv(node):
            continue
        reason = placed.get(_called_operator_key(node))
        if reason is None and on_cpu and (ratio := find_cost_ratio(node)) is not None:
            reason = f"its nodes take {ratio} times as long as torch's kernel at large sizes"
        if reason is not None:
            reasons[node] = reason
    return reasons


def _is_nonoverlapping_conv(node: Node) -> bool:
    """Whether a call convolves patches that do not overlap, and computes no input gradient.

    Its stride is its kernel, as in the patch embedding of a vision transformer.
    """
    if not isinstance(node.target, OpOverload):
        return False
    call = arguments_by_name(node)
    if not {"input", "weight", "stride", "padding", "dilation", "groups"} <= call.keys():
        return False
    kernel, sizes = (list(call[name].meta["val"].shape[2:]) for name in ("weight", "input"))
    if not all(isinstance(size, int) for size in (*kernel, *sizes)):
        return False
    stride = list(call["stride"]) * (len(kernel) if len(call["stride"]) == 1 else 1)
    is_plain = not call.get("transposed") and call["groups"] == 1
    is_nonoverlapping = stride == kernel and not any(call["padding"])
    is_undilated = all(step == 1 for step in call["dilation"])
    is_divisible = not any(size % width for width, size in zip(kernel, sizes, strict=True))
    return (
        is_plain
        and is_nonoverlapping
        and is_undilated
        and is_divisible
        and not call.get("output_mask", [False])[0]
    )


def is_placed_by_choice(node: Node) -> bool:
    """Whether the tables place a call in torch although its operator has a converter."""
    tables, name = generated_tables(), operator_key(node)
    in_torch = name in tables.place or name in traits.TRAINED_IN_TORCH or is_costly_somewhere(node)
    return in_torch and name in tables.converters


def _called_operator_key(node: Node) -> str:
    """Return the key of the operator that a node calls, directly or through `with_effects`."""
    key = operator_key(node)
    called_operator: Any = node.args[1] if key in traits.CARRIES_TOKEN else None
    return key if called_operator is None else str(called_operator.name())


def place_nodes(
    graph: AotGraph, unsupported: Mapping[Node, str] | None = None
) -> tuple[AotGraph, dict[Node, str], dict[Node, Node]]:
    """Place the nodes of a graph in ONNX Runtime or torch.

    Args:
        graph: the graph.
        unsupported: further nodes of `graph` that torch runs, with reasons.

    Returns:
        The graph with its RNG calls emitted; its nodes that torch runs, with reasons; the original
        node of each node.
    """
    higher_order_calls = [
        call for call in graph.module.graph.nodes if isinstance(call.target, HigherOrderOperator)
    ]
    asserting_calls = [
        call for call in higher_order_calls if has_inner_assertions(graph.module, call)
    ]
    torch_only = _with_items(
        {**dict.fromkeys(asserting_calls, _ASSERTION_REASON), **(unsupported or {})}
    )
    graph, in_torch, original_nodes = emit_rng_calls(graph, torch_only)
    return graph, _with_items({**_placed_by_table(graph), **in_torch}), original_nodes


def has_mixed_floats(node: Node) -> bool:
    """Whether an operator with a converter takes floats of several dtypes, as autocast can cause.

    torch's own kernel may refuse them, because tracing reports some saved dtypes wrongly (batch
    norm's statistics are float32, not the bfloat16 of the input).
    """
    values = [source.meta.get("val") for source in node.all_input_nodes]
    dtypes = {
        value.dtype
        for value in values
        if isinstance(value, torch.Tensor) and value.is_floating_point()
    }
    return len(dtypes) > 1 and operator_key(node) in generated_tables().converters


def _with_items(in_torch: Mapping[Node, str]) -> dict[Node, str]:
    """Add the getitem nodes that read these nodes, with the same reasons."""
    reasons = dict(in_torch)
    stack = list(in_torch)
    while stack:
        node = stack.pop()
        for user in node.users:
            if user.target is operator.getitem and user not in reasons:
                reasons[user] = reasons[node]
                stack.append(user)
    return reasons


def is_ordered(node: Node) -> bool:
    """Whether a node must keep its order because it draws random numbers or has an effect."""
    target: Any = node.target
    if target is torch.ops.aten.empty_strided.default or target is operator.getitem:
        return False
    if isinstance(target, OpOverload):
        has_effect = target._schema.is_mutable or target.namespace in _COLLECTIVE_NAMESPACES
        return has_effect or is_rng_call(node)
    return is_rng_call(node) or getattr(target, "__name__", "") in traits.ORDERED


def is_rng_call(node: Node) -> bool:
    """Whether a node draws random numbers, or allocates memory for them."""
    target: Any = node.target
    if target is operator.getitem:
        return isinstance(node.args[0], Node) and is_rng_call(node.args[0])
    if isinstance(target, OpOverloadPacket):
        return True  # only `emit_rng_calls` makes calls of a packet
    if not isinstance(target, OpOverload):
        return False
    is_allocation = target is torch.ops.aten.empty_strided.default
    return is_allocation or (
        torch.Tag.nondeterministic_seeded in target.tags and not _has_zero_dropout(node)
    )


def _has_zero_dropout(node: Node) -> bool:
    """Whether a node's only randomness is dropout with probability 0: attention in evaluation."""
    target: Any = node.target
    for index, argument in enumerate(target._schema.arguments):
        if argument.name == "dropout_p":
            probability = node.args[index] if index < len(node.args) else argument.default_value
            return bool(node.kwargs.get("dropout_p", probability) == 0)
    return False


def list_placements(
    graph_module: GraphModule, in_torch: Mapping[Node, str], fell_back: Collection[Node] = ()
) -> list[Placement]:
    """List one record per operator call, in graph order.

    Args:
        graph_module: the graph.
        in_torch: the nodes that torch runs, with reasons.
        fell_back: the nodes of `in_torch` that cannot be converted.
    """
    placements = []
    for node in graph_module.graph.nodes:
        if node.op != "call_function" or node.target is operator.getitem or writes_argument(node):
            continue
        name, reason = operator_key(node), in_torch.get(node)
        if reason is None:
            placements.append(Placement(node.name, name, "onnx"))
        else:
            line = str(source_line(node) or "")
            if node in fell_back:
                draft = (
                    "" if name in generated_tables().converters else "\n".join(draft_entry(node))
                )
                placements.append(
                    Placement(node.name, name, "torch", reason, line, "fallback", draft)
                )
            else:
                placements.append(Placement(node.name, name, "torch", reason, line))
    return placements


def report_placements(placements: Sequence[Placement]) -> str:
    """Return lines that report the operators in torch and why, grouped; empty if there are none."""
    groups: dict[tuple[str, str], list[Placement]] = {}
    for placement in placements:
        if placement.where == "torch":
            groups.setdefault((placement.operator, placement.why), []).append(placement)
    lines = []
    for (name, reason), calls in groups.items():
        count = "1 call" if len(calls) == 1 else f"{len(calls)} calls"
        sources = list(dict.fromkeys(call.line for call in calls if call.line))
        location = f" at {sources[0]}" if sources else ""
        further_lines = f" and {len(sources) - 1} more lines" if len(sources) > 1 else ""
        lines.append(f"[ortable]   torch: {name}, {count}{location}{further_lines}: {reason}")
    return "\n".join(lines)
