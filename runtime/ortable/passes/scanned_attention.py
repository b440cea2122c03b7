"""A Scan whose step is one place of linear attention becomes linear attention over all places.

In comes a graph for ONNX Runtime after the rules of rewriting: `ort_recurrence` has made one
LinearAttention of the step inside the Scan. Out goes the same graph, changed in place, without such
a Scan: what a step computes of the scanned inputs, and of what it reads from the state, is computed
of all places at once. Called by `passes.pipeline`.

A result of a step, [B, ...], has the places behind the batch when it is computed at once,
[B, L, ...], as LinearAttention takes them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ortable import dims, dtypes
from ortable.ir import Graph, editing
from ortable.ir.captures import inner_graphs, read_names
from ortable.ir.node import Node
from ortable.passes.analysis.constants import small_constant
from ortable.prelude.values import consts, permuted
from ortable_generated.onnx.traits import ELEMENTWISE, KEEPS_ORDER

_STEP = "com.microsoft::LinearAttention"


def merge_scanned_attention(graph: Graph) -> int:
    """Replaces the Scans whose step is linear attention, here and in graphs inside; how many."""
    count = 0
    for node in list(graph.nodes):
        inner = inner_graphs(node) if node.attrs else ()
        count += sum(merge_scanned_attention(each) for each in inner)
        if node.key == "Scan":
            found = _found(graph, node)
            count += found is not None and found.merge()
    return count


def _found(graph: Graph, node: Node) -> _Scanned | None:
    """The Scan, if it carries one state that only linear attention reads and makes; None for
    another one."""
    body = node.attrs["body"]
    plain = set(node.attrs) == {"body", "num_scan_inputs"} and isinstance(body, Graph)
    if not plain or len(node.inputs) != int(node.attrs["num_scan_inputs"]) + 1:
        return None
    steps = [each for each in body.nodes if each.key == _STEP]
    if len(steps) != 1 or len(steps[0].inputs) < 4:
        return None
    step, state = steps[0], body.inputs[0].name
    alone = [each for each in body.nodes if state in read_names(each)] == [step]
    if not alone or step.inputs[3] != state or step.inputs.count(state) != 1:
        return None
    last = step.outputs[1] if len(step.outputs) > 1 else ""
    if (
        not last
        or body.outputs[0].name != last
        or any(last in read_names(each) for each in body.nodes)
    ):
        return None
    return _Scanned(graph, node, step)


class _Scanned:
    """One Scan, its body, and the results of the body that were computed for all places."""

    def __init__(self, graph: Graph, node: Node, step: Node) -> None:
        self.graph = graph
        self.node = node
        self.step = step
        self.body: Graph = node.attrs["body"]
        self.producers = {name: each for each in self.body.nodes for name in each.outputs if name}
        self.scanned = {
            info.name: outer
            for info, outer in zip(self.body.inputs[1:], node.inputs[1:], strict=True)
        }
        self.made: dict[str, str] = {}
        self.varying = {*self.scanned, *step.outputs}  # what differs from step to step
        self.known = {name for name in (*self.scanned, step.outputs[0]) if self._has_batch(name)}
        for each in self.body.nodes:
            if not self.varying.isdisjoint(each.inputs):
                self.varying.update(each.outputs)
                if each is not step and self._is_local(each):
                    self.known.add(each.outputs[0])

    def merge(self) -> bool:
        """Replaces the Scan; False, and nothing is changed, where a step has what is not computed
        of all places at once."""
        operands = [name for place, name in enumerate(self.step.inputs) if name and place != 3]
        rows = [info.name for info in self.body.outputs[1:]]
        if not self.known.issuperset((*operands, *rows)) or not self.scanned.keys().isdisjoint(
            rows
        ):
            return False
        with self._before():
            last = self._compute(self._needed([*operands, *rows]))
            stacked = [permuted(self.graph, self.made[name], self._swapped(name)) for name in rows]
        self._take_over([last, *stacked])
        return True

    # -- what can be computed of all places

    def _has_batch(self, name: str) -> bool:
        return self.body.has_shape(name) and len(self.body.get_shape(name)) > 0

    def _is_local(self, node: Node) -> bool:
        """Whether a node leaves the batch its first axis and treats every place alike, of results
        of which that is known."""
        used = [name for name in node.inputs if name]
        if len(node.outputs) != 1 or not all(map(self._has_batch, node.outputs)):
            return False
        if any(name in self.varying and name not in self.known for name in used):
            return False
        after = self.body.get_shape(node.outputs[0])
        if node.key in ELEMENTWISE:
            return all(self._is_aligned(name, len(after)) for name in used)
        if node.key not in KEEPS_ORDER or any(each in self.varying for each in used[1:]):
            return False
        fixed = all(isinstance(size, int) and size > 0 for size in after[1:])
        return fixed and dims.always_equal(self.body.get_shape(used[0])[0], after[0])

    def _is_aligned(self, name: str, rank: int) -> bool:
        """Whether an operand of an elementwise node stays where it is in a result of that rank:
        with the batch, or with fewer axes and the same in every step."""
        if not self.body.has_shape(name):
            return False
        if name in self.varying:
            return len(self.body.get_shape(name)) == rank
        inside = name in self.producers or self.body.is_own(name)
        outside = not inside or small_constant(self.body, name) is not None
        return outside and len(self.body.get_shape(name)) < rank

    # -- computing it

    def _needed(self, names: list[str]) -> set[str]:
        """These results, and those that they are computed of."""
        found: set[str] = set()
        while names:
            name = names.pop()
            if name not in found:
                found.add(name)
                node = self.producers.get(name)
                if node is not None and node is not self.step:
                    names += [each for each in node.inputs if each in self.varying]
        return found

    def _compute(self, needed: set[str]) -> str:
        """Makes [B, L, ...] of results [B, ...] of the step; the state after the last place."""
        for name, outer in self.scanned.items():
            if name in needed:
                self.made[name] = permuted(self.graph, outer, self._swapped(name))
        last = ""
        for node in self.body.nodes:
            if node is self.step:
                self.made[node.outputs[0]], last = self._attention()
            elif node.outputs[0] in needed:
                self.made[node.outputs[0]] = self._of_all_places(node)
        return last

    def _attention(self) -> tuple[str, str]:
        """[B, L, 1, H * V] of linear attention over all places, and the last state."""
        shape, step = self.body.get_shape, self.step
        inputs = [name and self._joined(name) for name in step.inputs[:3]]
        inputs.append(self.node.inputs[0])
        inputs += [name and self._joined(name) for name in step.inputs[4:]]
        read, last = self.graph.make_node(step.op_type, inputs, 2, domain=step.domain, **step.attrs)
        return self._reshaped(read, [0, 0, 1, shape(step.outputs[0])[2]]), last

    def _of_all_places(self, node: Node) -> str:
        """The result of another node of the step."""
        if node.key in ELEMENTWISE:
            inputs = [self.made.get(name) or self._outside(name) for name in node.inputs]
            made: str = self.graph.make_node(node.op_type, inputs, domain=node.domain, **node.attrs)
            return made
        sizes = self.body.get_shape(node.outputs[0])[1:]
        return self._reshaped(self.made[node.inputs[0]], [0, 0, *sizes])

    def _joined(self, name: str) -> str:
        """[B, L, width] of an operand [B, 1, width] of the step."""
        return self._reshaped(self.made[name], [0, 0, self.body.get_shape(name)[2]])

    def _outside(self, name: str) -> str:
        """What every step reads, as a result of the graph around."""
        if name and self.body.is_own(name):
            return self.graph.make_initializer("", small_constant(self.body, name))
        return name

    def _reshaped(self, x: str, sizes: list[Any]) -> str:
        """A Reshape to sizes that are known; 0 keeps one."""
        target = consts(self.graph, sizes, dtypes.int64)
        made: str = self.graph.make_node("Reshape", [x, target])
        return made

    def _swapped(self, name: str) -> list[int]:
        """The permutation between a scanned result, [L, B, ...], and [B, L, ...]."""
        return [1, 0, *range(2, self.body.get_rank(name) + 1)]

    # -- changing the graph

    @contextmanager
    def _before(self) -> Iterator[None]:
        """What is made meanwhile stands before the Scan, and is made for what it was."""
        graph, origin = self.graph, self.graph.origin
        place = graph.nodes.index(self.node)
        rest = graph.nodes[place:]
        del graph.nodes[place:]
        graph.origin = self.node.origin
        try:
            yield
        finally:
            graph.origin = origin
            graph.nodes.extend(rest)
            graph.outdate_uses()

    def _take_over(self, results: list[str]) -> None:
        """The nodes that make these results make those of the Scan, under their names."""
        graph, names = self.graph, self.node.outputs
        editing.remove_nodes(graph, [self.node])
        graph.use_index = None
        for made, name in zip(results, names, strict=False):
            if name:
                node = graph.values[made].producer
                node.outputs = [name if each == made else each for each in node.outputs]
                graph.values[name].producer = node
                del graph.values[made]
        graph.outdate_uses()
        editing.drop_dead_results(graph)
