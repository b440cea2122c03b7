"""Convert higher-order operators: transparent regions, functionalized calls, and control flow.

Transparent regions call a graph once and at most set a mode (such as no_grad); they are inlined. A
functionalized call of a custom operator returns its results and then the new values of the
arguments that it writes to; the user must register a converter for the operator. In functionalized
control flow, subgraphs write to their inputs with ``copy_``; here they become subgraphs that return
the new values.
"""

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


class CallLayout(NamedTuple):
    """Positions of the called graph and its operands among the arguments of an operator."""

    before: int = 0  # number of arguments before the graph
    between: int = 0  # number of arguments between the graph and the operands
    packed: bool = False  # whether one argument, a tuple, contains all operands


def find_call_layout(name: str) -> CallLayout | None:
    """Return the layout of the arguments if the operator calls a graph once, else None."""
    layout = traits.TRANSPARENT.get(name)
    return None if layout is None else CallLayout(*layout)


def is_token(node: Node) -> bool:
    """Whether a placeholder is an effect token, for which torch passes None to compiled graphs."""
    users = list(node.users)
    return bool(users) and all(
        getattr(user.target, "__name__", "") in traits.CARRIES_TOKEN and user.args[0] is node
        for user in users
    )


def reject_effects(graph_module: GraphModule) -> None:
    """Raise UnsupportedCase if the graph calls an operator with an effect, such as printing."""
    for node in graph_module.graph.nodes:
        if getattr(node.target, "__name__", "") in traits.CARRIES_TOKEN:
            refuse_effect(node.args[1])


def is_token_result(node: Node) -> bool:
    """Whether a node extracts the token from the results of an operator with an effect."""
    source = node.args[0] if len(node.args) == 2 and node.args[1] == 0 else None
    return (
        isinstance(source, Node) and getattr(source.target, "__name__", "") in traits.CARRIES_TOKEN
    )


def transparent_call(node: Node, args: Sequence[Any]) -> tuple[GraphModule, list[Any]] | None:
    """Return graph and operands if a higher-order operator calls a graph once, else None.

    Raises:
        UnsupportedCase: the operator is an autocast region, whose graph does not contain the casts.
    """
    target: Any = node.target
    name = target.name()
    layout = find_call_layout(name)
    if layout is None or not isinstance(args[layout.before], GraphModule):
        return None
    if name in traits.CASTS and args[traits.CASTS[name]]:
        raise UnsupportedCase(
            "autocast casts operands without nodes in the graph; `run_decompositions({})` of the "
            "exported program makes the casts explicit, and to_onnx calls it"
        )
    operands = args[layout.before + 1 + layout.between :]
    return args[layout.before], list(operands[0] if layout.packed else operands)


def transparent_result(name: str, args: Sequence[Any]) -> Any:
    """Return the value of a higher-order operator that only returns some of its arguments."""
    returns = traits.RETURNS[name]
    return list(args) if returns == "all" else args[0] if returns == "first" else None


def graph_placeholders(graph_module: GraphModule) -> list[Node]:
    """Return the placeholders of a graph, in order."""
    return [node for node in graph_module.graph.nodes if node.op == "placeholder"]


def bind_placeholders(
    graph_module: GraphModule, operands: Sequence[Any], values: dict[Node, Any]
) -> None:
    """Set the values of the placeholders of a graph to the operands of a call."""
    inputs = graph_placeholders(graph_module)
    if len(inputs) != len(operands):
        raise ConversionError(
            f"a subgraph with {len(inputs)} inputs ({', '.join(node.name for node in inputs)}) "
            f"is called with {len(operands)} operands"
        )
    values.update(zip(inputs, operands, strict=True))


def inlined_result(graph_module: GraphModule, values: dict[Node, Any]) -> Any:
    """Return the value of the output of an inlined graph; a container becomes a flat list."""
    returned = graph_module.graph.output_node().args[0]
    if isinstance(returned, Node):
        return values[returned]
    return [values[leaf] if isinstance(leaf, Node) else leaf for leaf in flatten_output(returned)]


def count_outputs(graph_module: GraphModule) -> int:
    """Return the number of leaves of the flattened output of a graph."""
    return sum(1 for _ in flatten_output(graph_module.graph.output_node().args[0]))


# -- functionalized calls

# The higher-order operator in which torch wraps functionalized control flow.
FUNCTIONALIZED_WRAPPER = "auto_functionalized_v2"


def convert_functionalized_call(
    find: Callable[[Any], Converter | None], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[Converter, list[Any], dict[str, Any]] | None:
    """Return converter, ``args`` and ``kwargs`` for a functionalized call of a custom operator.

    The converter of the overload (from ``find``) is called with the arguments of the schema, and
    returns the results followed by the new value of each written argument, in the order of the
    schema. Returns None if the overload has no converter. Raises UnsupportedCase if the operator
    writes into a part of a tensor, or twice into one tensor.
    """
    overload = args[0]
    converter = find(overload) if hasattr(overload, "_schema") else None
    if converter is None:
        return None
    arguments, order, view_arguments = functional_arguments(overload._schema, kwargs)
    bases = kwargs.get("_all_bases")
    if view_arguments or (bases is not None and sorted(order) != list(range(len(bases)))):
        raise UnsupportedCase(
            f"{overload.name()} writes into a part of a tensor, or twice into one tensor, which a "
            "converter does not support; copy the part before the call (x[0].clone())"
        )
    new_values = len(written_arguments(overload) if bases is None else bases)
    has_results = bool(overload._schema.returns)
    return _reorder_results(converter, has_results, order, new_values), [], arguments


def written_overload(node: Node) -> OpOverload | None:
    """Return the overload that a functionalized call wraps, if any; None for other nodes."""
    target = node.target
    if not isinstance(target, HigherOrderOperator):
        return None
    if target.name() in traits.FUNCTIONALIZED_CALL and node.args:
        overload = node.args[0]
        return overload if isinstance(overload, OpOverload) else None
    return None


def written_arguments(overload: Any) -> list[str]:
    """Return the names of the arguments that an overload writes to."""
    arguments = overload._schema.arguments
    return [
        argument.name
        for argument in arguments
        if argument.alias_info is not None and argument.alias_info.is_write
    ]


def functional_arguments(
    schema: Any, kwargs: Mapping[str, Any]
) -> tuple[dict[str, Any], list[int], dict[str, Any]]:
    """Convert the keyword arguments of a functionalized call to those of the schema.

    Returns a tuple of the arguments of the schema, the index of each written argument among the new
    values that the call returns, and the remaining keyword arguments, which describe views.
    """
    remaining = dict(kwargs)
    bases = remaining.pop("_all_bases", None)
    arguments: dict[str, Any] = {}
    order: list[int] = []
    written = 0
    for argument in schema.arguments:
        name = argument.name
        if argument.alias_info is None or not argument.alias_info.is_write:
            if name in remaining:
                arguments[name] = remaining.pop(name)
            continue
        if bases is None:  # the older form, which also returns None for an absent argument
            arguments[name] = remaining.pop(name, None)
            if arguments[name] is not None:
                order.append(written)
            written += 1
            continue
        index = remaining.pop(f"_{name}_base_index", None)
        remaining.pop(f"_{name}_alias", None)
        arguments[name] = None if index is None else bases[index]
        if index is not None:
            order.append(index)
    return arguments, order, remaining


def _reorder_results(
    converter: Converter, has_results: bool, order: Sequence[int], new_values: int
) -> Converter:
    """Wrap a converter to return the new values in torch's order instead of the schema's.

    Torch's results start with None if the operator returns nothing, and end with `new_values`.
    """

    def convert(graph: Any, res: ResultSpec, **arguments: Any) -> list[Any]:
        count = len(res) - new_values
        slots = [*range(count)] if has_results else []
        slots += [count + index for index in order]
        converter_res = ResultSpec(
            [res.outputs[position] for position in slots],
            [res.dtypes[position] for position in slots],
            [res.shapes[position] for position in slots],
        )
        returned = converter(graph, converter_res, **arguments)
        names = list(returned) if isinstance(returned, (list, tuple)) else [returned]
        results: list[Any] = [None] * len(res)
        for slot, name in zip(slots, names, strict=True):
            results[slot] = name
        return results

    return convert


# -- control flow


def wraps_control_flow(args: Sequence[Any]) -> bool:
    """Whether a functionalized call wraps an operator that `control_flow_call` supports."""
    return isinstance(args[0], HigherOrderOperator) and args[0].name() in _CONTROL_FLOW


def control_flow_call(args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[str, list[Any]]:
    """Return name and arguments of the operator, with subgraphs that also return written tensors.

    Raises UnsupportedCase if a subgraph writes into a view, twice into a tensor, or into a carried
    tensor of a loop.
    """
    name = args[0].name()
    return name, _CONTROL_FLOW[name](kwargs)


def is_wrapped_subgraph(node: Node) -> bool:
    """Whether all users of a node are functionalized calls of higher-order operators."""
    users = list(node.users)
    return bool(users) and all(
        getattr(user.target, "__name__", "") == FUNCTIONALIZED_WRAPPER
        and isinstance(user.args[0], HigherOrderOperator)
        for user in users
    )


def _convert_cond(arguments: dict[str, Any]) -> list[Any]:
    operands, written_indices = _split_operands(arguments, "operand")
    inputs = range(len(operands))
    branches = [
        _return_written(
            arguments[key], inputs, [written_indices[base] for base in sorted(written_indices)]
        )
        for key in ("true_fn", "false_fn")
    ]
    return [arguments["pred"], *branches, operands]


def _convert_while_loop(arguments: dict[str, Any]) -> list[Any]:
    carried, written_carries = _split_operands(arguments, "carried_input")
    if written_carries:
        raise UnsupportedCase(
            "the body of a while_loop writes into a carried tensor: return the new value instead"
        )
    captured, written_indices = _split_operands(arguments, "additional_input")
    written_captures = [written_indices[base] for base in sorted(written_indices)]
    read_captures = [index for index in range(len(captured)) if index not in written_captures]
    inputs = [
        *range(len(carried)),
        *(len(carried) + index for index in [*written_captures, *read_captures]),
    ]
    condition = _return_written(arguments["cond_fn"], inputs, [])
    body = _return_written(
        arguments["body_fn"], inputs, [len(carried) + index for index in written_captures]
    )
    captures = [
        [captured[index] for index in indices] for indices in (written_captures, read_captures)
    ]
    return [condition, body, [*carried, *captures[0]], captures[1]]


_CONTROL_FLOW = {"cond": _convert_cond, "while_loop": _convert_while_loop}


def _split_operands(arguments: dict[str, Any], prefix: str) -> tuple[list[Any], dict[int, int]]:
    """Return the operands named ``prefix0``, ``prefix1``, ..., and the indices of written ones.

    The second value maps the index of a written tensor in ``_all_bases`` to that of its operand.
    """
    operands: list[Any] = []
    written_indices: dict[int, int] = {}
    bases = arguments["_all_bases"]
    while True:
        name = f"{prefix}{len(operands)}"
        base = arguments.get(f"_{name}_base_index")
        if base is not None:
            is_view = any(
                f"_{name}_{suffix}" in arguments for suffix in ("slice_dim", "storage_offset")
            )
            if is_view or base in written_indices:
                raise UnsupportedCase(
                    "a branch or a loop body writes into a view of a tensor: write into the whole "
                    "tensor, or return the new value"
                )
            written_indices[base] = len(operands)
            operands.append(bases[base])
        elif name in arguments:
            operands.append(arguments[name])
        else:
            return operands, written_indices


def _return_written(
    graph_module: GraphModule, input_order: Sequence[int], written_inputs: Sequence[int]
) -> GraphModule:
    """Return a copy of a graph that takes ``input_order`` and also returns written inputs.

    Both parameters are indices of the inputs of ``graph_module``. The copy has no ``copy_`` to an
    input; the source of the last one is the value that is returned for a written input.
    """
    graph = Graph()
    nodes = list(graph_module.graph.nodes)
    graph_inputs = [node for node in nodes if node.op == "placeholder"]
    copies = {graph_inputs[index]: graph.node_copy(graph_inputs[index]) for index in input_order}
    last_values: dict[Node, Node] = {}
    for node in nodes:
        if node.target is torch.ops.aten.copy_.default and node.args[0] in graph_inputs:
            last_values[node.args[0]] = copies[node.args[1]]
        elif node.op == "output":
            leaves = [copies.get(leaf, leaf) for leaf in flatten_output(node.args[0])]
            final_values = [
                last_values.get(graph_inputs[index], copies[graph_inputs[index]])
                for index in written_inputs
            ]
            graph.output((*leaves, *final_values))
        elif node.op != "placeholder":
            copies[node] = graph.node_copy(node, copies.__getitem__)
    return GraphModule(graph_module, graph)
