"""In-place writes that nobody can see: ``relu_`` of a tensor that the graph has just made and of
which no view exists.  They are converted as the functional operator; every other write is
functionalised by torch first, which costs more than the whole conversion."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import GraphModule, Node
from torch.fx.node import map_arg

from ortable.compat.torch import OpOverload, is_composite
from ortable_generated.aten import traits


@dataclass(frozen=True)
class ElidableMutation:
    """A write that is converted as ``overload``; ``aliases`` are the nodes that name the tensor."""

    overload: Any
    aliases: tuple[Node, ...]


def elidable_mutations(
    graph_module: GraphModule, has_converter: Callable[[str], bool]
) -> dict[Node, ElidableMutation]:
    """The writes of a graph that can be converted as the functional operator.

    The written tensor was made in the graph, was only read before, has the dtype of every operand,
    and the functional overload has a converter (``has_converter("aten::relu")``).
    """
    found: dict[Node, ElidableMutation] = {}
    order: dict[Node, int] = {}
    for place, node in enumerate(graph_module.graph.nodes):
        order[node] = place
        if isinstance(node.target, OpOverload) and node.target._schema.is_mutable:
            write = _elidable(node, found, order, has_converter)
            if write is not None:
                found[node] = write
    return found


def _elidable(
    node: Node,
    found: dict[Node, ElidableMutation],
    order: dict[Node, int],
    has_converter: Callable[[str], bool],
) -> ElidableMutation | None:
    overload = _functional(node.target)
    if overload is None or not has_converter(overload.name()):
        return None
    written = node.args[0] if node.args else None
    if not isinstance(written, Node) or not _same_dtype(node) or not _keeps_dtype(node, overload):
        return None
    aliases = (*found[written].aliases, written) if written in found else (written,)
    if not _is_fresh(aliases[0]):
        return None
    for alias in aliases:
        for user in alias.users:
            if user in order and user is not node and user not in found and not _only_reads(user):
                return None
    return ElidableMutation(overload, aliases)


def _functional(target: Any) -> Any:
    """``aten.relu`` for ``aten.relu_``: same name and arguments, nothing written; None if torch has
    none, or if more than the first argument is written."""
    schema = target._schema
    name, overload = schema.name, schema.overload_name
    written = [a for a in schema.arguments if a.alias_info is not None and a.alias_info.is_write]
    if len(written) != 1 or written[0].name != schema.arguments[0].name or not name.endswith("_"):
        return None
    namespace, _, plain = name.partition("::")
    packet = getattr(getattr(torch.ops, namespace), plain[:-1], None)
    found = getattr(packet, overload or "default", None)
    if found is None or found._schema.is_mutable:
        return None
    same = [a.name for a in found._schema.arguments] == [a.name for a in schema.arguments]
    return found if same else None


def _same_dtype(node: Node) -> bool:
    """Every tensor operand has the dtype of the result, so that no cast is due on the way back."""
    result = node.meta.get("val")
    if not isinstance(result, torch.Tensor):
        return False
    operands = node.all_input_nodes
    mask = traits.MASK.get(node.target.name())  # type: ignore[union-attr]
    if mask is not None:
        operands = [operand for operand in operands if operand is not node.args[mask]]
    values = [operand.meta.get("val") for operand in operands]
    return all(
        not isinstance(value, torch.Tensor) or value.dtype == result.dtype for value in values
    )


_KEPT: dict[tuple[Any, torch.dtype], bool] = {}  # by overload and dtype of the written tensor


def _keeps_dtype(node: Node, overload: Any) -> bool:
    """Whether the functional operator gives the dtype of its operands: a comparison gives bools,
    which the write casts."""
    dtype = node.meta["val"].dtype
    if (overload, dtype) not in _KEPT:
        _KEPT[overload, dtype] = _makes_bools(node, overload) == (dtype == torch.bool)
    return _KEPT[overload, dtype]


def _makes_bools(node: Node, overload: Any) -> bool:
    """Whether the operator, of single numbers, gives a bool; operators that do not take these are
    no comparisons."""

    def single(operand: Node) -> Any:
        value = operand.meta.get("val")
        if not isinstance(value, torch.Tensor):
            return value
        return torch.empty((), dtype=value.dtype, device="meta")

    args, kwargs = map_arg((node.args, node.kwargs), single)
    try:
        found = overload(*args, **kwargs)
    except Exception:
        return bool(node.meta["val"].dtype == torch.bool)
    return isinstance(found, torch.Tensor) and found.dtype == torch.bool


def _is_fresh(node: Node) -> bool:
    """``node`` makes one tensor whose memory nothing else shares, or takes one of several."""
    if node.target is operator.getitem:
        source = node.args[0]
        return (
            isinstance(source, Node)
            and _only_reads(source)
            and all(
                user is node or (user.target is node.target and user.args[1] != node.args[1])
                for user in source.users
            )
            and not any(_is_list(result) for result in source.target._schema.returns)  # type: ignore[union-attr]
        )
    return (
        isinstance(node.target, OpOverload)
        and not node.target._schema.is_mutable
        and len(node.target._schema.returns) == 1
        and _only_reads(node)
    )


def _is_list(result: Any) -> bool:
    return isinstance(result.type, torch.ListType)


def _only_reads(node: Node) -> bool:
    """``node`` neither writes to its arguments nor returns one of them, or a view."""
    return isinstance(node.target, OpOverload) and only_reads(node.target)


def only_reads(target: Any) -> bool:
    """Whether an overload neither writes to its arguments nor returns one of them, or a view."""
    if target._schema.is_mutable:
        return False
    if any(result.alias_info is not None for result in target._schema.returns):
        return False
    if target.name() in traits.UNMARKED_VIEW:
        return False
    # Composite operators hide what they return (dropout in eval mode returns its input), so only
    # those known to make a new tensor count.
    return target.name() in traits.FRESH or not is_composite(target)
