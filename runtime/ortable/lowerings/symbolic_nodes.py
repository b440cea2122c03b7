"""Nodes that the user writes into a torch graph: torch.onnx.ops.symbolic."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ortable.errors import UnsupportedCase

if TYPE_CHECKING:
    from ortable.builder import GraphBuilder, Res

# Arguments of make_node, which an attribute cannot be called.
_TAKEN = frozenset({"op_type", "inputs", "outputs", "domain", "name"})


def symbolic(
    graph: GraphBuilder,
    res: Res,
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
    domain: str = "",
    version: int | None = None,
) -> str:
    """A node with one result."""
    attributes = _attributes(attr_keys, attr_types, attr_pos, (attr_ints, attr_floats, attr_strs))
    (found,) = _node(graph, inputs, op_type, domain, version, 1, attributes)
    _describe(graph, found, onnx_dtype, shape)
    return found


def symbolic_multi_out(
    graph: GraphBuilder,
    res: Res,
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
    domain: str = "",
    version: int | None = None,
) -> list[str]:
    """A node with several results."""
    attributes = _attributes(attr_keys, attr_types, attr_pos, (attr_ints, attr_floats, attr_strs))
    names = _node(graph, inputs, op_type, domain, version, len(onnx_dtypes), attributes)
    for name, dtype, shape in zip(names, onnx_dtypes, shapes, strict=True):
        _describe(graph, name, dtype, shape)
    return names


def _node(
    graph: GraphBuilder,
    inputs: Sequence[Any],
    op_type: str,
    domain: str,
    version: int | None,
    count: int,
    attributes: dict[str, Any],
) -> list[str]:
    """The node; its domain is imported in the version that the user asks for.

    Raises UnsupportedCase when the model has another version of the domain already.
    """
    plain = "" if domain == "ai.onnx" else domain
    if version is not None:
        given = graph.opsets.setdefault(plain, version)
        if given != version:
            raise UnsupportedCase(
                f"{domain or 'ai.onnx'}::{op_type} is asked for in version {version}, but this "
                f"model has the domain in version {given}; choose it with target_opset"
            )
    found = graph.make_node(op_type, list(inputs), count, domain=plain, **attributes)
    return [found] if isinstance(found, str) else list(found)


def _attributes(
    keys: Sequence[str],
    types: Sequence[str],
    places: Sequence[Sequence[int]],
    values: tuple[Sequence[Any], Sequence[Any], Sequence[Any]],
) -> dict[str, Any]:
    """Attributes out of the lists in which torch keeps them: a type is i, f or s, and ``s`` behind
    it for a list."""
    taken = sorted(_TAKEN & set(keys))
    if taken:
        raise UnsupportedCase(f"an attribute called '{taken[0]}' cannot be written")
    found = {}
    for key, kind, (start, end) in zip(keys, types, places, strict=True):
        part = list(values["ifs".index(kind[0])][start:end])
        found[key] = part if len(kind) == 2 else part[0]
    return found


def _describe(graph: GraphBuilder, name: str, dtype: int, shape: Sequence[Any]) -> None:
    """What the user says of a result, where ONNX does not know it."""
    if not graph.has_type(name):
        graph.set_type(name, dtype)
    if not graph.has_shape(name):
        graph.set_shape(name, tuple(shape))
