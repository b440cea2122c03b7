"""Find the nondeterministic results of a graph, and check whether eager could draw a value."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.fx import Graph, Node
from torch.utils import _pytree as pytree

# Operators that return uninitialised memory.
UNINITIALISED = (
    "empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided",
)  # fmt: skip
# Operators that read only the shape and dtype of their first argument.
_READ_SHAPES = (
    "zeros_like", "ones_like", "full_like", "new_zeros", "new_ones", "new_full", "sym_size",
    "sym_numel", "sym_stride", "sym_storage_offset", "zero", "zero_", "fill", "fill_",
)  # fmt: skip
# Operators that write every element of their first argument.
_OVERWRITE = ("zero_", "fill_", "copy_")
DRAWS = 32


@dataclass(frozen=True)
class Drawn:
    """Reasons (``random``, ``memory``) by output index, and by name of a mutated input."""

    outputs: dict[int, str] = field(default_factory=dict)
    inputs: dict[str, str] = field(default_factory=dict)


def drawn_results(graph: Graph) -> Drawn:
    """Return the results of a graph that depend on a nondeterministic node."""
    if not any(_node_reason(node) for node in graph.nodes):
        return Drawn()
    propagation = _ReasonPropagation()
    for node in graph.nodes:
        propagation.visit(node)
    output = next(node for node in graph.nodes if node.op == "output")
    leaves = [leaf for leaf in pytree.tree_leaves(output.args[0]) if leaf is not None]
    output_reasons = {index: propagation.reason_of(leaf) for index, leaf in enumerate(leaves)}
    input_reasons = {n.name: propagation.reason_of(n) for n in graph.nodes if n.op == "placeholder"}
    return Drawn(
        {index: reason for index, reason in output_reasons.items() if reason},
        {name: reason for name, reason in input_reasons.items() if reason},
    )


@dataclass
class _ReasonPropagation:
    """Propagates reasons through a graph: from a node to those that read it or share its memory."""

    roots: dict[Node, Node] = field(default_factory=dict)
    reasons: dict[Node, str] = field(default_factory=dict)

    def reason_of(self, value: Any) -> str | None:
        """Return why a value may differ from eager's, None where it may not."""
        return self.reasons.get(self.roots.get(value, value)) if isinstance(value, Node) else None

    def visit(self, node: Node) -> None:
        """Record the root of a node, and propagate the reasons of its inputs."""
        self.roots[node] = node
        if node.op not in ("call_function", "call_module"):
            return
        reason = _node_reason(node) or self._inherited_reason(node)
        if not isinstance(node.target, torch._ops.OpOverload):
            source = node.args[0] if node.args else None
            is_view = isinstance(source, Node) and self.roots[source] is not source
            if getattr(node.target, "__name__", "") == "getitem" and is_view:
                self.roots[node] = self.roots[source]  # an item of several views
            self._set_reason(node, reason)
            return
        schema = node.target._schema
        for argument, operand in zip(schema.arguments, node.args, strict=False):
            alias = argument.alias_info
            if alias is None or not isinstance(operand, Node):
                continue
            if any(result.alias_info is not None for result in schema.returns):
                self.roots[node] = self.roots[operand]
            if alias.is_write:
                overwrites = _packet_name(node) in _OVERWRITE and self.roots[operand] is operand
                if reason is None and overwrites:
                    self.reasons.pop(operand, None)
                self._set_reason(operand, reason)
        self._set_reason(node, reason)

    def _set_reason(self, node: Node, reason: str | None) -> None:
        if reason is not None:
            self.reasons[self.roots[node]] = reason

    def _inherited_reason(self, node: Node) -> str | None:
        reads: Iterable[Node] = node.all_input_nodes
        name = _packet_name(node)
        if name in _READ_SHAPES or name in _OVERWRITE:
            reads = [source for source in reads if source is not node.args[0]]
        reasons = {self.reason_of(source) for source in reads}
        return next((reason for reason in ("memory", "random") if reason in reasons), None)


def _packet_name(node: Node) -> str:
    target = node.target
    if isinstance(target, torch._ops.OpOverload):
        return target._schema.name.removeprefix("aten::")
    return ""


def _node_reason(node: Node) -> str | None:
    """Return ``random`` or ``memory`` for a node that is nondeterministic with its arguments."""
    target = node.target
    if not isinstance(target, torch._ops.OpOverload):
        return "random" if any(_has_draw(inner) for inner in _subgraphs(node)) else None
    packet = _packet_name(node)
    size = _element_count(node.meta.get("val"))
    if packet in UNINITIALISED:
        return "memory" if size != 0 else None
    if packet in ("resize", "resize_"):
        source = node.args[0]
        assert isinstance(source, Node)
        old_size = _element_count(source.meta.get("val")) or 0
        return "memory" if size is None or size > old_size else None
    if torch.Tag.nondeterministic_seeded not in target.tags:
        return None
    names = [argument.name for argument in target._schema.arguments]
    defaults = {parameter.name: parameter.default_value for parameter in target._schema.arguments}
    arguments = {**defaults, **dict(zip(names, node.args, strict=False)), **node.kwargs}
    probabilities = [arguments[name] for name in ("p", "dropout_p", "dropout") if name in arguments]
    modes = [arguments[name] for name in ("train", "training") if name in arguments]
    return "random" if size != 0 and 0 not in probabilities and False not in modes else None


def _subgraphs(node: Node) -> list[Graph]:
    owner = node.graph.owning_module
    names = [source.target for source in node.all_input_nodes if source.op == "get_attr"]
    inner = [getattr(owner, str(name), None) for name in names] if owner is not None else []
    return [module.graph for module in inner if isinstance(module, torch.fx.GraphModule)]


def _has_draw(graph: Graph) -> bool:
    return any(_node_reason(node) for node in graph.nodes)


def _element_count(value: Any) -> int | None:
    """The number of elements of a tensor of static shape, else None."""
    number = value.numel() if isinstance(value, torch.Tensor) else None
    return number if isinstance(number, int) else None


# -- plausibility of drawn values -----------------------------------------------------------------


def implausible(
    draw: Callable[[Any, int, int], torch.Tensor], call: Any, index: int, result: torch.Tensor
) -> str | None:
    """Describe why eager can not draw ``result``, judged by a number of draws; None where it can.

    An element that is finite (or not) at every draw is so in ``result``; an element that has at
    most two values, as from dropout, has one of them; any other lies within twice the spread around
    the median, on a side without a long tail.
    """
    if result.numel() == 0:
        return None
    try:
        draws = torch.stack([draw(call, index, 100 + number) for number in range(DRAWS)]).double()
    except Exception:  # the shape is random, too
        return None
    numbers, finite = result.double(), torch.isfinite(draws)
    is_odd = (finite.all(0) & ~torch.isfinite(numbers)) | (~finite.any(0) & torch.isfinite(numbers))
    if bool(is_odd.any()):
        return f"{numbers[is_odd][0].item()} is nothing that eager draws there"
    if not bool(finite.all()):
        return None
    distinct = 1 + (draws.sort(0).values.diff(dim=0) != 0).sum(0)
    if int(distinct.max()) == 1:  # the sample seeds the generator itself
        return None
    if int(distinct.max()) <= 2:
        slack = 1e-2 * (1 + draws.abs().amax(0))
        is_known = ((draws - numbers).abs() <= slack).any(0) | (numbers == 0)
        values = draws.unique()  # probabilities near 0 and 1 yield only one of the two values
        if values.numel() <= 2:
            is_known |= torch.isin(numbers, values)
        return (
            None
            if bool(is_known.all())
            else f"{numbers[~is_known][0].item()} is not one of two values"
        )
    return _describe_outlier(draws.flatten(), numbers)


def _describe_outlier(draws: torch.Tensor, numbers: torch.Tensor) -> str | None:
    median = draws.median()
    deviation = (draws - median).abs().mean()
    for side, reach, largest in (
        ("below", median - draws.min(), (median - numbers).max()),
        ("above", draws.max() - median, (numbers - median).max()),
    ):
        if reach <= 8 * deviation and largest > 2 * reach + 1e-6:
            return (
                f"a number {largest.item():g} {side} the median of eager's, which reach {reach:g}"
            )
    return None
