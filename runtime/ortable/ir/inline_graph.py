"""Copy the nodes of one graph into another: bind inputs, name outputs, rename the rest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from onnx import GraphProto

from ortable.errors import BuilderError

from .captures import captured_names
from .state import GraphState

if TYPE_CHECKING:
    from ortable.ir import Graph


def make_nodes(
    builder: Graph,
    other: Graph,
    input_names: Sequence[str],
    output_names: Sequence[str],
    prefix: str,
) -> Any:
    """Add the nodes of ``other``, which is not changed; types and shapes are inferred again.

    Raises:
        BuilderError: the numbers of inputs or outputs, or the opsets, do not agree.
    """
    _check_compatible(builder, other, input_names, output_names)
    names = dict(zip((info.name for info in other.inputs), input_names, strict=True))
    renamed: dict[str, str] = {}
    aliases: list[tuple[str, str]] = []
    computed = {name for node in other.nodes for name in node.outputs if name}
    for info, name in zip(other.outputs, output_names, strict=True):
        if info.name in computed and info.name not in renamed:
            renamed[info.name] = name
        else:
            aliases.append((info.name, name))  # an input or a constant that is an output
    for name, value in other.initializers_dict.items():
        if name not in names:
            names[name] = _copy_initializer(builder, name, value, prefix)
    _copy_nodes(builder, other, names, renamed, prefix)
    for source, name in aliases:
        builder.make_node("Identity", [names[source]], [name])
    return output_names[0] if len(output_names) == 1 else tuple(output_names)


def _check_compatible(
    builder: Graph, other: Graph, inputs: Sequence[str], outputs: Sequence[str]
) -> None:
    if len(inputs) != len(other.inputs) or len(outputs) != len(other.outputs):
        raise BuilderError(
            f"The other graph has {len(other.inputs)} inputs and {len(other.outputs)} outputs, "
            f"{len(inputs)} and {len(outputs)} names are given ({builder.tag})"
        )
    for domain, version in other.opsets.items():
        if builder.opsets.setdefault(domain, version) != version:
            raise BuilderError(
                f"The other graph has opset {version} for domain {domain!r}, this one has "
                f"{builder.opsets[domain]} ({builder.tag})"
            )
    for key, function in other.functions.items():
        builder.functions.setdefault(key, function)
    builder.function_tensors.update(other.function_tensors)


def _copy_initializer(builder: Graph, name: str, value: Any, prefix: str) -> str:
    if name.startswith("init"):
        return builder.make_initializer("", value)
    return builder.make_initializer(builder.unique_name(prefix + name), value)


def _copy_nodes(
    builder: Graph,
    other: Graph,
    names: dict[str, str],
    renamed: Mapping[str, str],
    prefix: str,
) -> None:
    origin, table = builder.origin, builder.kernel_table
    builder.kernel_table = {}  # the other graph has its casts already
    try:
        for node in other.nodes:
            outputs = [
                name and (renamed.get(name) or builder.unique_name(prefix + name))
                for name in node.outputs
            ]
            inputs = [names.get(name, name) for name in node.inputs]
            attrs = {k: _copy_attribute(builder, v, names) for k, v in node.attrs.items()}
            _check_captured(node, names)
            builder.origin = node.origin if node.origin is not None else origin
            builder.make_node(
                node.op_type, inputs, outputs, domain=node.domain, name=node.name, **attrs
            )
            names.update((a, b) for a, b in zip(node.outputs, outputs, strict=True) if a)
            for before, after in zip(node.outputs, outputs, strict=True):
                if after:
                    _copy_knowledge(builder, other, before, after)
    finally:
        builder.origin, builder.kernel_table = origin, table


def _copy_knowledge(builder: Graph, other: Graph, before: str, after: str) -> None:
    """Copy the type where no rule inferred one, and static shapes: symbols differ."""
    info, source = builder.values[after], other.values[before]
    info.dtype = info.dtype or source.dtype
    if (
        info.shape is None
        and source.shape is not None
        and all(type(d) is int for d in source.shape)
    ):
        info.shape = source.shape
    if info.rank is None:
        info.rank = source.rank


def _check_captured(node: Any, names: Mapping[str, str]) -> None:
    for value in node.attrs.values():
        if isinstance(value, GraphProto) and any(
            names.get(n, n) != n for n in captured_names(node)
        ):
            raise BuilderError(
                f"Node {node!r} has a subgraph given as GraphProto that reads "
                "results which are renamed here."
            )


def _copy_attribute(builder: Graph, value: Any, names: Mapping[str, str]) -> Any:
    """Copy a subgraph, translating the names it reads from outside."""
    if not isinstance(value, GraphState):
        return value
    child = builder.subgraph(value.name)  # type: ignore[attr-defined]
    inner: dict[str, str] = dict(names)
    for info in value.inputs:
        inner[info.name] = child.make_tensor_input(
            child.unique_name(info.name), info.dtype, info.shape
        )
    for name, constant in value.initializers_dict.items():
        inner[name] = child.make_initializer("", constant)
    _copy_nodes(child, value, inner, {}, "")  # type: ignore[arg-type]
    for info in value.outputs:
        child.make_tensor_output(inner.get(info.name, info.name))
    return child
