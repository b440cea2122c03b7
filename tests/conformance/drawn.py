"""Which results of an exported graph depend on random numbers or on memory as it was found, and
whether a drawn result can be one of eager's. In comes a graph (or a result), out come the places
of its outputs with the reason; check.py and compare.py call it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.fx import Graph, Node
from torch.utils import _pytree as pytree

# What they return is memory as it was found.
UNINITIALISED = (
    "empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided",
)  # fmt: skip
# Of their first argument they read the shape and dtype alone.
_READ_SHAPES = (
    "zeros_like", "ones_like", "full_like", "new_zeros", "new_ones", "new_full", "sym_size",
    "sym_numel", "sym_stride", "sym_storage_offset", "zero", "zero_", "fill", "fill_",
)  # fmt: skip
# They write every element of their first argument.
_OVERWRITE = ("zero_", "fill_", "copy_")
DRAWS = 32


@dataclass(frozen=True)
class Drawn:
    """Reasons (``random``, ``memory``) by place of output, and by name of an input written into."""

    outputs: dict[int, str] = field(default_factory=dict)
    inputs: dict[str, str] = field(default_factory=dict)


def drawn_results(graph: Graph) -> Drawn:
    """The results of a graph that depend on a node that draws."""
    if not any(_reason(node) for node in graph.nodes):
        return Drawn()
    walk = _Walk()
    for node in graph.nodes:
        walk.visit(node)
    output = next(node for node in graph.nodes if node.op == "output")
    leaves = [leaf for leaf in pytree.tree_leaves(output.args[0]) if leaf is not None]
    found = {place: walk.reason_of(leaf) for place, leaf in enumerate(leaves)}
    written = {n.name: walk.reason_of(n) for n in graph.nodes if n.op == "placeholder"}
    return Drawn(
        {place: why for place, why in found.items() if why},
        {name: why for name, why in written.items() if why},
    )


@dataclass
class _Walk:
    """Goes along a graph: the tensor whose memory each node shows, and the tensors that depend on
    what was drawn."""

    roots: dict[Node, Node] = field(default_factory=dict)
    reasons: dict[Node, str] = field(default_factory=dict)

    def reason_of(self, value: Any) -> str | None:
        """Why a value is not eager's, None when it is."""
        return self.reasons.get(self.roots.get(value, value)) if isinstance(value, Node) else None

    def visit(self, node: Node) -> None:
        """Note the root of a node, and pass on what its inputs depend on."""
        self.roots[node] = node
        if node.op not in ("call_function", "call_module"):
            return
        why = _reason(node) or self._inherited(node)
        if not isinstance(node.target, torch._ops.OpOverload):
            source = node.args[0] if node.args else None
            view = isinstance(source, Node) and self.roots[source] is not source
            if getattr(node.target, "__name__", "") == "getitem" and view:
                self.roots[node] = self.roots[source]  # of a view that has several results
            self._note(node, why)
            return
        schema = node.target._schema
        for argument, given in zip(schema.arguments, node.args, strict=False):
            alias = argument.alias_info
            if alias is None or not isinstance(given, Node):
                continue
            if any(result.alias_info is not None for result in schema.returns):
                self.roots[node] = self.roots[given]
            if alias.is_write:
                whole = _packet(node) in _OVERWRITE and self.roots[given] is given
                if why is None and whole:
                    self.reasons.pop(given, None)
                self._note(given, why)
        self._note(node, why)

    def _note(self, node: Node, why: str | None) -> None:
        if why is not None:
            self.reasons[self.roots[node]] = why

    def _inherited(self, node: Node) -> str | None:
        reads: Iterable[Node] = node.all_input_nodes
        name = _packet(node)
        if name in _READ_SHAPES or name in _OVERWRITE:
            reads = [each for each in reads if each is not node.args[0]]
        found = {self.reason_of(each) for each in reads}
        return next((why for why in ("memory", "random") if why in found), None)


def _packet(node: Node) -> str:
    target = node.target
    if isinstance(target, torch._ops.OpOverload):
        return target._schema.name.removeprefix("aten::")
    return ""


def _reason(node: Node) -> str | None:
    """``random`` or ``memory`` for a node that draws or hands out memory as it was found: not
    every node of such an operator does, dropout in eval mode and empty results do not."""
    target = node.target
    if not isinstance(target, torch._ops.OpOverload):
        return "random" if any(_has_drawing(inner) for inner in _subgraphs(node)) else None
    packet = _packet(node)
    size = _count(node.meta.get("val"))
    if packet in UNINITIALISED:
        return "memory" if size != 0 else None
    if packet in ("resize", "resize_"):
        source = node.args[0]
        assert isinstance(source, Node)
        before = _count(source.meta.get("val")) or 0
        return "memory" if size is None or size > before else None
    if torch.Tag.nondeterministic_seeded not in target.tags:
        return None
    names = [argument.name for argument in target._schema.arguments]
    defaults = {each.name: each.default_value for each in target._schema.arguments}
    given = {**defaults, **dict(zip(names, node.args, strict=False)), **node.kwargs}
    chances = [given[name] for name in ("p", "dropout_p", "dropout") if name in given]
    modes = [given[name] for name in ("train", "training") if name in given]
    return "random" if size != 0 and 0 not in chances and False not in modes else None


def _subgraphs(node: Node) -> list[Graph]:
    owner = node.graph.owning_module
    names = [each.target for each in node.all_input_nodes if each.op == "get_attr"]
    inner = [getattr(owner, str(name), None) for name in names] if owner is not None else []
    return [each.graph for each in inner if isinstance(each, torch.fx.GraphModule)]


def _has_drawing(graph: Graph) -> bool:
    return any(_reason(node) for node in graph.nodes)


def _count(value: Any) -> int | None:
    """The number of elements of a tensor of static shape, else None."""
    number = value.numel() if isinstance(value, torch.Tensor) else None
    return number if isinstance(number, int) else None


# -- can it be one of eager's? --------------------------------------------------------------------


def implausible(
    draw: Callable[[Any, int, int], torch.Tensor], call: Any, place: int, got: torch.Tensor
) -> str | None:
    """What shows that ``got`` is no draw of eager's, judged by some draws; None when nothing does.

    A number that is finite (or not) at every draw is so in ``got``; an element that has at most two
    values (what dropout makes) has one of them; any other lies within twice the spread around the
    median, on a side without a long tail.
    """
    if got.numel() == 0:
        return None
    try:
        drawn = torch.stack([draw(call, place, 100 + number) for number in range(DRAWS)]).double()
    except Exception:  # the shape is drawn, too
        return None
    ours, finite = got.double(), torch.isfinite(drawn)
    off = (finite.all(0) & ~torch.isfinite(ours)) | (~finite.any(0) & torch.isfinite(ours))
    if bool(off.any()):
        return f"{ours[off][0].item()} is nothing that eager draws there"
    if not bool(finite.all()):
        return None
    distinct = 1 + (drawn.sort(0).values.diff(dim=0) != 0).sum(0)
    if int(distinct.max()) == 1:  # the sample seeds the generator itself: nothing to judge by
        return None
    if int(distinct.max()) <= 2:
        slack = 1e-2 * (1 + drawn.abs().amax(0))
        known = ((drawn - ours).abs() <= slack).any(0) | (ours == 0)
        anywhere = drawn.unique()  # chances near 0 and 1 show one of the two values alone
        if anywhere.numel() <= 2:
            known |= torch.isin(ours, anywhere)
        return None if bool(known.all()) else f"{ours[~known][0].item()} is not one of two values"
    return _outside(drawn.flatten(), ours)


def _outside(pool: torch.Tensor, ours: torch.Tensor) -> str | None:
    middle = pool.median()
    deviation = (pool - middle).abs().mean()
    for name, reach, most in (
        ("below", middle - pool.min(), (middle - ours).max()),
        ("above", pool.max() - middle, (ours - middle).max()),
    ):
        if reach <= 8 * deviation and most > 2 * reach + 1e-6:
            return f"a number {most.item():g} {name} the median of eager's, which reach {reach:g}"
    return None
