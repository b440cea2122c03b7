"""Where the nodes of a graph run, and why: in ONNX Runtime, or in torch between its sessions."""

from __future__ import annotations

import operator
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import torch
from torch.fx import GraphModule, Node

from ortable.backend.lower.aot_graph import AotGraph, writes_argument
from ortable.backend.roles import Placement
from ortable.compat.torch import HigherOrderOperator, OpOverload, OpOverloadPacket
from ortable.interpreter.assertions import asserts_inside
from ortable.interpreter.calls import operator_key
from ortable.interpreter.diagnostics.origin import source_line
from ortable.interpreter.diagnostics.unsupported import draft_entry
from ortable.interpreter.operator_cost import find_cost_ratio, is_costly_somewhere
from ortable.interpreter.tables import generated_tables
from ortable_generated.aten import traits

from .draws import write_draws

_TRAINS = "its weights change, and torch's kernel is the faster one then"
# ONNX has no node that raises, and nothing comes out of a branch not taken
_ASSERTS = "a graph that it calls has an assertion, which ONNX cannot raise"
_COLLECTIVES = ("_c10d_functional", "c10d", "fsdp")


def _placed_by_table(graph: AotGraph) -> dict[Node, str]:
    """Map the nodes that the tables place in torch to the reasons: entries with `place: torch`,
    operators with trait `trained_in_torch`, and calls that cost more than torch's kernel."""
    place = dict(generated_tables().place)
    on_cpu = graph.device == "cpu"
    if graph.kind != "inference" and on_cpu:
        place.update(dict.fromkeys(traits.TRAINED_IN_TORCH, _TRAINS))
    reasons: dict[Node, str] = {}
    for node in graph.module.graph.nodes:
        if node.op != "call_function" or mixes_dtypes(node) or _takes_patches(node):
            continue
        why = place.get(_called(node))
        if why is None and on_cpu and (ratio := find_cost_ratio(node)) is not None:
            why = f"its nodes take {ratio} times as long as torch's kernel at large sizes"
        if why is not None:
            reasons[node] = why
    return reasons


def _takes_patches(node: Node) -> bool:
    """Whether a convolution cuts its input into patches, all of it, and its weight alone, no input,
    needs a gradient. False for any other operator."""
    target = node.target
    if not isinstance(target, OpOverload):
        return False
    names = [argument.name for argument in target._schema.arguments]
    call: dict[str, Any] = {**dict(zip(names, node.args, strict=False)), **node.kwargs}
    if not {"input", "weight", "stride", "padding", "dilation", "groups"} <= call.keys():
        return False
    kernel, sizes = (list(call[name].meta["val"].shape[2:]) for name in ("weight", "input"))
    if not all(isinstance(size, int) for size in (*kernel, *sizes)):
        return False
    stride = list(call["stride"]) * (len(kernel) if len(call["stride"]) == 1 else 1)
    plain = not call.get("transposed") and call["groups"] == 1
    apart = stride == kernel and not any(call["padding"])
    dense = all(step == 1 for step in call["dilation"])
    fits = not any(size % step for step, size in zip(kernel, sizes, strict=True))
    return plain and apart and dense and fits and not call.get("output_mask", [False])[0]


def is_placed_by_choice(node: Node) -> bool:
    """Tell whether the tables place an operator in torch that ortable can convert."""
    tables, name = generated_tables(), operator_key(node)
    chosen = name in tables.place or name in traits.TRAINED_IN_TORCH or is_costly_somewhere(node)
    return chosen and name in tables.converters


def _called(node: Node) -> str:
    """The key of the operator that a node calls, behind the token of one with an effect."""
    key = operator_key(node)
    operator_called: Any = node.args[1] if key in traits.CARRIES_TOKEN else None
    return key if operator_called is None else str(operator_called.name())


def place_nodes(
    graph: AotGraph, unsupported: Mapping[Node, str] | None = None
) -> tuple[AotGraph, dict[Node, str], dict[Node, Node]]:
    """The graph with its draws written out, the nodes of it that torch runs, with reasons, and
    which node each of its nodes was before.

    :param unsupported: further nodes of `graph` that torch runs, with reasons
    """
    hops = [n for n in graph.module.graph.nodes if isinstance(n.target, HigherOrderOperator)]
    asserting = [node for node in hops if asserts_inside(graph.module, node)]
    more = _with_items({**dict.fromkeys(asserting, _ASSERTS), **(unsupported or {})})
    graph, in_torch, before = write_draws(graph, more)
    return graph, _with_items({**_placed_by_table(graph), **in_torch}), before


def mixes_dtypes(node: Node) -> bool:
    """Whether a converted operator takes floats of several dtypes, as autocast leaves them: torch's
    own kernel may refuse them, because tracing does not tell all of its saved dtypes truly (those
    of batch norm's statistics are float32, not the bfloat16 of the input)."""
    values = [n.meta.get("val") for n in node.all_input_nodes]
    kinds = {v.dtype for v in values if isinstance(v, torch.Tensor) and v.is_floating_point()}
    return len(kinds) > 1 and operator_key(node) in generated_tables().converters


def _with_items(in_torch: Mapping[Node, str]) -> dict[Node, str]:
    """`in_torch` with the nodes that take single results out of those of its nodes."""
    found = dict(in_torch)
    stack = list(in_torch)
    while stack:
        node = stack.pop()
        for user in node.users:
            if user.target is operator.getitem and user not in found:
                found[user] = found[node]
                stack.append(user)
    return found


def is_ordered(node: Node) -> bool:
    """Whether a node must run after the others of its kind that come before it in the graph: it
    draws random numbers, or has an effect."""
    target: Any = node.target
    if target is torch.ops.aten.empty_strided.default or target is operator.getitem:
        return False
    if isinstance(target, OpOverload):
        changes = target._schema.is_mutable or target.namespace in _COLLECTIVES
        return changes or is_draw(node)
    return is_draw(node) or getattr(target, "__name__", "") in traits.ORDERED


def is_draw(node: Node) -> bool:
    """Whether all that a node does is to draw random numbers, or to make room for them."""
    target: Any = node.target
    if target is operator.getitem:
        return isinstance(node.args[0], Node) and is_draw(node.args[0])
    if isinstance(target, OpOverloadPacket):
        return True  # a draw: no other node is called by a packet
    if not isinstance(target, OpOverload):
        return False
    room = target is torch.ops.aten.empty_strided.default
    return room or (torch.Tag.nondeterministic_seeded in target.tags and not _drops_nothing(node))


def _drops_nothing(node: Node) -> bool:
    """Whether all that a node could draw is a mask of dropout, and it drops with probability 0:
    attention in evaluation."""
    target: Any = node.target
    for index, argument in enumerate(target._schema.arguments):
        if argument.name == "dropout_p":
            given = node.args[index] if index < len(node.args) else argument.default_value
            return bool(node.kwargs.get("dropout_p", given) == 0)
    return False


def list_placements(
    graph_module: GraphModule, in_torch: Mapping[Node, str], fell_back: Collection[Node] = ()
) -> list[Placement]:
    """One record per operator call, in the order of the graph.

    :param fell_back: those of `in_torch` that cannot be converted
    """
    found = []
    for node in graph_module.graph.nodes:
        if node.op != "call_function" or node.target is operator.getitem or writes_argument(node):
            continue
        name, why = operator_key(node), in_torch.get(node)
        if why is None:
            found.append(Placement(node.name, name, "onnx"))
        else:
            line = str(source_line(node) or "")
            if node in fell_back:
                draft = (
                    "" if name in generated_tables().converters else "\n".join(draft_entry(node))
                )
                found.append(Placement(node.name, name, "torch", why, line, "fallback", draft))
            else:
                found.append(Placement(node.name, name, "torch", why, line))
    return found


def report_placements(placements: Sequence[Placement]) -> str:
    """Lines that say what runs in torch and why, grouped; empty when nothing does."""
    groups: dict[tuple[str, str], list[Placement]] = {}
    for each in placements:
        if each.where == "torch":
            groups.setdefault((each.operator, each.why), []).append(each)
    lines = []
    for (name, why), calls in groups.items():
        count = "1 call" if len(calls) == 1 else f"{len(calls)} calls"
        sources = list(dict.fromkeys(call.line for call in calls if call.line))
        where = f" at {sources[0]}" if sources else ""
        more = f" and {len(sources) - 1} more lines" if len(sources) > 1 else ""
        lines.append(f"[ortable]   torch: {name}, {count}{where}{more}: {why}")
    return "\n".join(lines)
