"""Graphs inside graphs, and functionalised calls. Regions that only set a mode (no_grad) and
submodules are converted in place. An operator of a library that writes into its arguments is one
call that returns the results and then the new values, converted through a converter of the user's;
control flow, whose graphs end in ``copy_`` into their own inputs, becomes the same control flow
with graphs that return what they would have written."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch.fx import Graph, GraphModule, Node

from ortable.compat.torch import HigherOrderOperator, OpOverload
from ortable.ir.context import Converter
from ortable.ir.result import ResultSpec
from ortable_generated.aten import traits

from ..errors import ConversionError, UnsupportedCase
from ..lowerings.control_flow import refuse_effect
from .outputs import flatten_output


class Call(NamedTuple):
    """Where a higher-order operator has the graph that it calls once: the number of arguments
    before it, of those between it and the operands, and whether the operands are one tuple."""

    before: int = 0
    between: int = 0
    packed: bool = False


def call_of(name: str) -> Call | None:
    """Where a higher-order operator has the graph that it calls once; None for any other one."""
    layout = traits.TRANSPARENT.get(name)
    return None if layout is None else Call(*layout)


def is_token(node: Node) -> bool:
    """Whether an input only orders effects: torch calls the compiled graph with None for it."""
    users = list(node.users)
    return bool(users) and all(
        getattr(user.target, "__name__", "") in traits.CARRIES_TOKEN and user.args[0] is node
        for user in users
    )


def refuse_effects(graph_module: GraphModule) -> None:
    """Raise UnsupportedCase for an effect that an ONNX graph would lose; also where nothing that
    the graph returns depends on it."""
    for node in graph_module.graph.nodes:
        if getattr(node.target, "__name__", "") in traits.CARRIES_TOKEN:
            refuse_effect(node.args[1])


def is_token_result(node: Node) -> bool:
    """Whether a node takes the token out of the results of an operator with an effect."""
    source = node.args[0] if len(node.args) == 2 and node.args[1] == 0 else None
    return (
        isinstance(source, Node) and getattr(source.target, "__name__", "") in traits.CARRIES_TOKEN
    )


def transparent_call(node: Node, args: Sequence[Any]) -> tuple[GraphModule, list[Any]] | None:
    """The graph and the operands of a higher-order operator that calls it once; None for any other
    node.

    Raises UnsupportedCase for a region of autocast, whose casts are not written in the graph.
    """
    target: Any = node.target
    name = target.name()
    call = call_of(name)
    if call is None or not isinstance(args[call.before], GraphModule):
        return None
    if name in traits.CASTS and args[traits.CASTS[name]]:
        raise UnsupportedCase(
            "autocast casts operands where the graph does not show it; `run_decompositions({})` of "
            "the exported program writes the casts out, and to_onnx calls it"
        )
    operands = args[call.before + 1 + call.between :]
    return args[call.before], list(operands[0] if call.packed else operands)


def transparent_result(name: str, args: Sequence[Any]) -> Any:
    """What a higher-order operator that computes nothing returns."""
    kind = traits.RETURNS[name]
    return list(args) if kind == "all" else args[0] if kind == "first" else None


def graph_placeholders(graph_module: GraphModule) -> list[Node]:
    """Inputs of a graph, in order."""
    return [node for node in graph_module.graph.nodes if node.op == "placeholder"]


def bind_placeholders(
    graph_module: GraphModule, operands: Sequence[Any], values: dict[Node, Any]
) -> None:
    """Give the placeholders of a graph the values that it is called with.

    Raises ConversionError when the numbers differ.
    """
    inputs = graph_placeholders(graph_module)
    if len(inputs) != len(operands):
        raise ConversionError(
            f"a subgraph with {len(inputs)} inputs ({', '.join(node.name for node in inputs)}) "
            f"is called with {len(operands)} operands"
        )
    values.update(zip(inputs, operands, strict=True))


def result_of(graph_module: GraphModule, values: dict[Node, Any]) -> Any:
    """What a graph converted in place returns, with nodes replaced by what they became."""
    returned = graph_module.graph.output_node().args[0]
    if isinstance(returned, Node):
        return values[returned]
    return [values[leaf] if isinstance(leaf, Node) else leaf for leaf in flatten_output(returned)]


def count_outputs(graph_module: GraphModule) -> int:
    """Number of entries of the flattened output of a graph."""
    return sum(1 for _ in flatten_output(graph_module.graph.output_node().args[0]))


# -- functionalised calls

# The functionalised call that torch puts around control flow.
WRAPPER = "auto_functionalized_v2"


def operator_call(
    find: Callable[[Any], Converter | None], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[Converter, list[Any], dict[str, Any]] | None:
    """A converter of the call and its arguments, from the overload's own; None when ``find`` has
    none.

    The overload's converter is called with the arguments of its schema. It returns the results and
    then the new value of each argument that is written, in the order of the schema.
    Raises UnsupportedCase for a write into a part of a tensor.
    """
    overload = args[0]
    converter = find(overload) if hasattr(overload, "_schema") else None
    if converter is None:
        return None
    arguments, order, rest = functional_arguments(overload._schema, kwargs)
    bases = kwargs.get("_all_bases")
    if rest or (bases is not None and sorted(order) != list(range(len(bases)))):
        raise UnsupportedCase(
            f"{overload.name()} writes into a part of a tensor, or twice into one, which a "
            "converter does not see; copy the part before the call (x[0].clone())"
        )
    return _reorder_results(converter, bool(overload._schema.returns), order), [], arguments


def written_overload(node: Node) -> OpOverload | None:
    """The operator that writes into its arguments for which ``node`` is the functional call."""
    target = node.target
    if not isinstance(target, HigherOrderOperator):
        return None
    if target.name() in traits.FUNCTIONALIZED_CALL and node.args:
        first = node.args[0]
        return first if isinstance(first, OpOverload) else None
    return None


def written_arguments(overload: Any) -> list[str]:
    """Names of the arguments that an overload writes into."""
    arguments = overload._schema.arguments
    return [a.name for a in arguments if a.alias_info is not None and a.alias_info.is_write]


def functional_arguments(
    schema: Any, kwargs: Mapping[str, Any]
) -> tuple[dict[str, Any], list[int], dict[str, Any]]:
    """The arguments of a schema in those of its functional call; for each one that is written,
    which of the new values it is; what is left: sizes and places of views."""
    rest = dict(kwargs)
    bases = rest.pop("_all_bases", None)
    arguments: dict[str, Any] = {}
    order: list[int] = []
    for argument in schema.arguments:
        name = argument.name
        if argument.alias_info is None or not argument.alias_info.is_write:
            if name in rest:
                arguments[name] = rest.pop(name)
            continue
        if bases is None:
            arguments[name] = rest.pop(name, None)
            if arguments[name] is not None:
                order.append(len(order))
            continue
        index = rest.pop(f"_{name}_base_index", None)
        rest.pop(f"_{name}_alias", None)
        arguments[name] = None if index is None else bases[index]
        if index is not None:
            order.append(index)
    return arguments, order, rest


def _reorder_results(converter: Converter, has_results: bool, order: Sequence[int]) -> Converter:
    """``converter``, with its new values in torch's order; torch has a None in front when the
    operator returns nothing."""

    def convert(graph: Any, res: ResultSpec, **arguments: Any) -> list[Any]:
        count = len(res) - len(order)
        slots = [*range(count)] if has_results else []
        slots += [count + index for index in order]
        own = ResultSpec(
            [res.outputs[i] for i in slots],
            [res.dtypes[i] for i in slots],
            [res.shapes[i] for i in slots],
        )
        returned = converter(graph, own, **arguments)
        names = list(returned) if isinstance(returned, (list, tuple)) else [returned]
        results: list[Any] = [None] * len(res)
        for slot, name in zip(slots, names, strict=True):
            results[slot] = name
        return results

    return convert


# -- control flow


def wraps_control_flow(args: Sequence[Any]) -> bool:
    """Whether the first argument of the wrapper is control flow of ``control_flow_call``."""
    return isinstance(args[0], HigherOrderOperator) and args[0].name() in _CALLS


def control_flow_call(args: Sequence[Any], arguments: dict[str, Any]) -> tuple[str, list[Any]]:
    """Name and arguments of the control flow that returns its own results, then the new values of
    ``_all_bases``.

    Raises UnsupportedCase when a graph writes into a view, or into a carry of a loop.
    """
    name = args[0].name()
    return name, _CALLS[name](arguments)


def holds_writes(node: Node) -> bool:
    """Whether a graph that ``node`` names belongs to wrapped control flow only: its ``copy_`` are
    results."""
    users = list(node.users)
    return bool(users) and all(
        getattr(user.target, "__name__", "") == WRAPPER
        and isinstance(user.args[0], HigherOrderOperator)
        for user in users
    )


def _convert_cond(arguments: dict[str, Any]) -> list[Any]:
    operands, places = _split_operands(arguments, "operand")
    inputs = range(len(operands))
    branches = [
        _return_written(arguments[key], inputs, [places[base] for base in sorted(places)])
        for key in ("true_fn", "false_fn")
    ]
    return [arguments["pred"], *branches, operands]


def _while_loop(arguments: dict[str, Any]) -> list[Any]:
    carried, written = _split_operands(arguments, "carried_input")
    if written:
        raise UnsupportedCase(
            "the body of a while_loop writes into a carried tensor: return the new value instead"
        )
    captured, places = _split_operands(arguments, "additional_input")
    mutated = [places[base] for base in sorted(places)]
    read = [index for index in range(len(captured)) if index not in mutated]
    inputs = [*range(len(carried)), *(len(carried) + index for index in [*mutated, *read])]
    condition = _return_written(arguments["cond_fn"], inputs, [])
    body = _return_written(
        arguments["body_fn"], inputs, [len(carried) + index for index in mutated]
    )
    both = [[captured[index] for index in places] for places in (mutated, read)]
    return [condition, body, [*carried, *both[0]], both[1]]


_CALLS = {"cond": _convert_cond, "while_loop": _while_loop}


def _split_operands(arguments: dict[str, Any], word: str) -> tuple[list[Any], dict[int, int]]:
    """The operands called ``word0``, ``word1``..., and the place of each written one by the index
    of its base."""
    operands: list[Any] = []
    places: dict[int, int] = {}
    bases = arguments["_all_bases"]
    while True:
        name = f"{word}{len(operands)}"
        base = arguments.get(f"_{name}_base_index")
        if base is not None:
            view = any(f"_{name}_{kind}" in arguments for kind in ("slice_dim", "storage_offset"))
            if view or base in places:
                raise UnsupportedCase(
                    "a branch or a body writes into a view of a tensor: write into the whole "
                    "tensor, or return the new value"
                )
            places[base] = len(operands)
            operands.append(bases[base])
        elif name in arguments:
            operands.append(arguments[name])
        else:
            return operands, places


def _return_written(
    graph_module: GraphModule, inputs: Sequence[int], written: Sequence[int]
) -> GraphModule:
    """A copy of a graph with its inputs in another order, which returns the last values of the
    inputs ``written`` after its own results."""
    graph = Graph()
    nodes = list(graph_module.graph.nodes)
    graph_inputs = [node for node in nodes if node.op == "placeholder"]
    copies = {graph_inputs[index]: graph.node_copy(graph_inputs[index]) for index in inputs}
    last: dict[Node, Node] = {}
    for node in nodes:
        if node.target is torch.ops.aten.copy_.default and node.args[0] in graph_inputs:
            last[node.args[0]] = copies[node.args[1]]
        elif node.op == "output":
            leaves = [copies.get(leaf, leaf) for leaf in flatten_output(node.args[0])]
            finals = [
                last.get(graph_inputs[index], copies[graph_inputs[index]]) for index in written
            ]
            graph.output((*leaves, *finals))
        elif node.op != "placeholder":
            copies[node] = graph.node_copy(node, copies.__getitem__)
    return GraphModule(graph_module, graph)
