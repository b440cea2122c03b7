"""Copy the nodes of one graph into another: bind inputs, name outputs, rename inner results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from onnx import GraphProto

from ortable.errors import BuilderError

from .captures import captured_names
from .state import GraphState

if TYPE_CHECKING:
    from ortable.ir import Graph


def copy_graph_into(
    builder: Graph,
    source_graph: Graph,
    input_names: Sequence[str],
    output_names: Sequence[str],
    prefix: str,
) -> Any:
    """Add copies of the nodes of a graph to ``builder``, and infer their types and shapes again.

    Returns the only name of ``output_names``, or a tuple of them. The names
    of other results begin with ``prefix``.

    Raises:
        BuilderError: the numbers of inputs or outputs, or the opsets, do not agree, or a subgraph
            given as GraphProto reads a result that the copy renames.
    """
    _check_and_import(builder, source_graph, input_names, output_names)
    names = dict(zip((info.name for info in source_graph.inputs), input_names, strict=True))
    output_name_of: dict[str, str] = {}
    identities: list[tuple[str, str]] = []
    computed = {name for node in source_graph.nodes for name in node.outputs if name}
    for info, name in zip(source_graph.outputs, output_names, strict=True):
        if info.name in computed and info.name not in output_name_of:
            output_name_of[info.name] = name
        else:
            identities.append((info.name, name))  # an input, a constant, or a repeated output
    for name, value in source_graph.initializers_dict.items():
        if name not in names:
            names[name] = _copy_initializer(builder, name, value, prefix)
    _copy_nodes(builder, source_graph, names, output_name_of, prefix)
    for source, name in identities:
        builder.make_node("Identity", [names[source]], [name])
    return output_names[0] if len(output_names) == 1 else tuple(output_names)


def _check_and_import(
    builder: Graph, source_graph: Graph, inputs: Sequence[str], outputs: Sequence[str]
) -> None:
    """Check numbers of inputs and outputs, and add opsets and functions of the source graph."""
    if len(inputs) != len(source_graph.inputs) or len(outputs) != len(source_graph.outputs):
        raise BuilderError(
            f"The other graph has {len(source_graph.inputs)} inputs and "
            f"{len(source_graph.outputs)} outputs, but {len(inputs)} and {len(outputs)} names are "
            f"given ({builder.tag})"
        )
    for domain, version in source_graph.opsets.items():
        if builder.opsets.setdefault(domain, version) != version:
            raise BuilderError(
                f"The other graph has opset {version} for domain {domain!r}, but this graph has "
                f"{builder.opsets[domain]} ({builder.tag})"
            )
    for key, function in source_graph.functions.items():
        builder.functions.setdefault(key, function)
    builder.function_tensors.update(source_graph.function_tensors)


def _copy_initializer(builder: Graph, name: str, value: Any, prefix: str) -> str:
    if name.startswith("init"):  # a name of `initializers.default_name`
        return builder.make_initializer("", value)
    return builder.make_initializer(builder.unique_name(prefix + name), value)


def _copy_nodes(
    builder: Graph,
    source_graph: Graph,
    names: dict[str, str],
    output_name_of: Mapping[str, str],
    prefix: str,
) -> None:
    """Copy nodes; ``names`` maps results of the source graph to copies, and is extended."""
    old_origin, kernel_table = builder.origin, builder.kernel_table
    builder.kernel_table = {}  # the source graph already has its casts
    try:
        for node in source_graph.nodes:
            outputs = [
                name and (output_name_of.get(name) or builder.unique_name(prefix + name))
                for name in node.outputs
            ]
            inputs = [names.get(name, name) for name in node.inputs]
            attrs = {
                key: _copy_attribute(builder, value, names) for key, value in node.attrs.items()
            }
            _check_captured(node, names)
            builder.origin = node.origin if node.origin is not None else old_origin
            builder.make_node(
                node.op_type, inputs, outputs, domain=node.domain, name=node.name, **attrs
            )
            names.update(
                (old_result, new_result)
                for old_result, new_result in zip(node.outputs, outputs, strict=True)
                if old_result
            )
            for old_name, new_name in zip(node.outputs, outputs, strict=True):
                if new_name:
                    _copy_facts(builder, source_graph, old_name, new_name)
    finally:
        builder.origin, builder.kernel_table = old_origin, kernel_table


def _copy_facts(builder: Graph, source_graph: Graph, old_name: str, new_name: str) -> None:
    """Copy dtype, rank and a static shape if they are unknown in the copy.

    A symbolic shape is not copied, because the graphs may use a symbol for different sizes.
    """
    info_of_copy, source_info = builder.values[new_name], source_graph.values[old_name]
    info_of_copy.dtype = info_of_copy.dtype or source_info.dtype
    if (
        info_of_copy.shape is None
        and source_info.shape is not None
        and all(type(size) is int for size in source_info.shape)
    ):
        info_of_copy.shape = source_info.shape
    if info_of_copy.rank is None:
        info_of_copy.rank = source_info.rank


def _check_captured(node: Any, names: Mapping[str, str]) -> None:
    for value in node.attrs.values():
        if isinstance(value, GraphProto) and any(
            names.get(captured, captured) != captured for captured in captured_names(node)
        ):
            raise BuilderError(
                f"Node {node!r} cannot be copied: its subgraph given as GraphProto reads results "
                "that the copy renames."
            )


def _copy_attribute(builder: Graph, value: Any, names: Mapping[str, str]) -> Any:
    """Copy an attribute; in a subgraph, rename the results that it reads from outside."""
    if not isinstance(value, GraphState):
        return value
    child = builder.subgraph(value.name)  # type: ignore[attr-defined]
    inner_names: dict[str, str] = dict(names)
    for info in value.inputs:
        inner_names[info.name] = child.make_tensor_input(
            child.unique_name(info.name), info.dtype, info.shape
        )
    for name, constant in value.initializers_dict.items():
        inner_names[name] = child.make_initializer("", constant)
    _copy_nodes(child, value, inner_names, {}, "")  # type: ignore[arg-type]
    for info in value.outputs:
        child.make_tensor_output(inner_names.get(info.name, info.name))
    return child
