"""Lower nodes that the user writes into a torch graph with torch.onnx.ops.symbolic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ortable.errors import BuilderError, UnsupportedCase
from ortable.ir import Graph, ResultSpec
from ortable.ir.schemas import find_schema

# Parameters of make_node, so attributes of these names cannot be passed as keyword arguments.
_MAKE_NODE_PARAMETERS = frozenset({"op_type", "inputs", "outputs", "domain", "name"})


def lower_symbolic(
    graph: Graph,
    res: ResultSpec,
    inputs: Sequence[Any],
    op_type: str,
    onnx_dtype: int,
    *,
    shape: Sequence[Any],
    attr_keys: Sequence[str],
    attr_types: Sequence[str],
    attr_pos: Sequence[Sequence[int]],
    attr_ints: Sequence[int],
    attr_floats: Sequence[float],
    attr_strs: Sequence[str],
    metadata_props_keys: Sequence[str] = (),
    metadata_props_values: Sequence[str] = (),
    domain: str = "",
    version: int | None = None,
) -> str:
    """Lower torch.onnx.ops.symbolic to a node with one result."""
    attributes = _decode_attributes(
        attr_keys, attr_types, attr_pos, (attr_ints, attr_floats, attr_strs)
    )
    props = dict(zip(metadata_props_keys, metadata_props_values, strict=True))
    (result,) = _make_symbolic_node(graph, inputs, op_type, domain, version, 1, attributes, props)
    _set_type_and_shape(graph, result, onnx_dtype, shape)
    return result


def lower_symbolic_multi_out(
    graph: Graph,
    res: ResultSpec,
    inputs: Sequence[Any],
    op_type: str,
    onnx_dtypes: Sequence[int],
    *,
    shapes: Sequence[Sequence[Any]],
    attr_keys: Sequence[str],
    attr_types: Sequence[str],
    attr_pos: Sequence[Sequence[int]],
    attr_ints: Sequence[int],
    attr_floats: Sequence[float],
    attr_strs: Sequence[str],
    metadata_props_keys: Sequence[str] = (),
    metadata_props_values: Sequence[str] = (),
    domain: str = "",
    version: int | None = None,
) -> list[str]:
    """Lower torch.onnx.ops.symbolic_multi_out to a node with several results."""
    attributes = _decode_attributes(
        attr_keys, attr_types, attr_pos, (attr_ints, attr_floats, attr_strs)
    )
    props = dict(zip(metadata_props_keys, metadata_props_values, strict=True))
    names = _make_symbolic_node(
        graph, inputs, op_type, domain, version, len(onnx_dtypes), attributes, props
    )
    for name, dtype, shape in zip(names, onnx_dtypes, shapes, strict=True):
        _set_type_and_shape(graph, name, dtype, shape)
    return names


def _make_symbolic_node(
    graph: Graph,
    inputs: Sequence[Any],
    op_type: str,
    domain: str,
    version: int | None,
    count: int,
    attributes: dict[str, Any],
    props: Mapping[str, str],
) -> list[str]:
    """Make the node with the metadata ``props``; import its domain in the requested version."""
    domain_name = "" if domain == "ai.onnx" else domain
    if version is not None:
        imported = graph.opsets.setdefault(domain_name, version)
        if imported != version and not _is_same_schema(op_type, domain_name, imported, version):
            raise UnsupportedCase(
                f"{domain or 'ai.onnx'}::{op_type} is requested in version {version}, but this "
                f"model has the domain in version {imported}; choose it with target_opset"
            )
    origin = graph.origin
    if props:
        get_metadata = graph.origin_metadata
        graph.origin = {**(get_metadata(origin) if get_metadata is not None else {}), **props}
    # set on the node, because attributes may have the name of a parameter of make_node
    extra = {name: attributes.pop(name) for name in _MAKE_NODE_PARAMETERS & set(attributes)}
    try:
        result = graph.make_node(op_type, list(inputs), count, domain=domain_name, **attributes)
    finally:
        graph.origin = origin
    graph.nodes[-1].attrs.update(extra)
    return [result] if isinstance(result, str) else list(result)


def _is_same_schema(op_type: str, domain: str, version: int, other: int) -> bool:
    """Whether ONNX defines an operator identically in two versions of its domain."""
    try:
        first, second = find_schema(op_type, domain, version), find_schema(op_type, domain, other)
    except BuilderError:  # the operator exists in only one of the versions
        return False
    return first is not None and second is not None and first.since == second.since


def _decode_attributes(
    keys: Sequence[str],
    types: Sequence[str],
    spans: Sequence[Sequence[int]],
    values: tuple[Sequence[Any], Sequence[Any], Sequence[Any]],
) -> dict[str, Any]:
    """Decode torch's flattened attributes; types are i, f, s, and the lists is, fs, ss."""
    result = {}
    for key, type_code, (start, end) in zip(keys, types, spans, strict=True):
        part = list(values["ifs".index(type_code[0])][start:end])
        result[key] = part if len(type_code) == 2 else part[0]
    return result


def _set_type_and_shape(graph: Graph, name: str, dtype: int, shape: Sequence[Any]) -> None:
    """Set the user's dtype and shape of a result if ONNX infers none."""
    if not graph.has_type(name):
        graph.set_type(name, dtype)
    if not graph.has_shape(name):
        graph.set_shape(name, tuple(shape))
