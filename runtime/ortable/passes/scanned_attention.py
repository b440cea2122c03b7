"""Turn a Scan whose step is one token of linear attention into linear attention over all tokens.

Runs after the rules, for ONNX Runtime: `ort_recurrence` has made one LinearAttention of the
step inside the Scan. What a step computes from the scanned inputs and from what it reads of the
state is computed for all tokens at once. Called by `passes.pipeline`.

A result of a step, [B, ...], becomes [B, L, ...] for all tokens, as LinearAttention takes them.
"""

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
    """Replace the Scans whose step is linear attention, here and in graphs inside; return how
    many.
    """
    count = 0
    for node in list(graph.nodes):
        inner = inner_graphs(node) if node.attrs else ()
        count += sum(merge_scanned_attention(subgraph) for subgraph in inner)
        if node.key == "Scan":
            scan = _find_scanned(graph, node)
            count += scan is not None and scan.merge_scan()
    return count


def _find_scanned(graph: Graph, node: Node) -> _ScannedAttention | None:
    """The Scan, if it carries one state that only linear attention reads and makes, else None."""
    body = node.attrs["body"]
    plain = set(node.attrs) == {"body", "num_scan_inputs"} and isinstance(body, Graph)
    if not plain or len(node.inputs) != int(node.attrs["num_scan_inputs"]) + 1:
        return None
    steps = [body_node for body_node in body.nodes if body_node.key == _STEP]
    if len(steps) != 1 or len(steps[0].inputs) < 4:
        return None
    step, state = steps[0], body.inputs[0].name
    is_only_reader = [body_node for body_node in body.nodes if state in read_names(body_node)] == [
        step
    ]
    if not is_only_reader or step.inputs[3] != state or step.inputs.count(state) != 1:
        return None
    last = step.outputs[1] if len(step.outputs) > 1 else ""
    if (
        not last
        or body.outputs[0].name != last
        or any(last in read_names(body_node) for body_node in body.nodes)
    ):
        return None
    return _ScannedAttention(graph, node, step)


class _ScannedAttention:
    """One Scan, its body, and the results of the body that were computed for all tokens."""

    def __init__(self, graph: Graph, node: Node, step: Node) -> None:
        self.graph = graph
        self.node = node
        self.step = step
        self.body: Graph = node.attrs["body"]
        self.producers = {
            name: body_node for body_node in self.body.nodes for name in body_node.outputs if name
        }
        self.scanned = {
            info.name: outer
            for info, outer in zip(self.body.inputs[1:], node.inputs[1:], strict=True)
        }
        self.computed: dict[str, str] = {}
        self.varying = {*self.scanned, *step.outputs}  # results that differ from step to step
        self.local = {name for name in (*self.scanned, step.outputs[0]) if self._has_batch(name)}
        for body_node in self.body.nodes:
            if not self.varying.isdisjoint(body_node.inputs):
                self.varying.update(body_node.outputs)
                if body_node is not step and self._is_local(body_node):
                    self.local.add(body_node.outputs[0])

    def merge_scan(self) -> bool:
        """Replace the Scan; False, without changes, where a step has a part that cannot be computed
        for all tokens at once.
        """
        operands = [name for index, name in enumerate(self.step.inputs) if name and index != 3]
        rows = [info.name for info in self.body.outputs[1:]]
        if not self.local.issuperset((*operands, *rows)) or not self.scanned.keys().isdisjoint(
            rows
        ):
            return False
        with self._insert_before():
            last = self._compute_all(self._collect_operands([*operands, *rows]))
            stacked = [
                permuted(self.graph, self.computed[name], self._swapped_axes(name)) for name in rows
            ]
        self._take_over([last, *stacked])
        return True

    # -- what can be computed for all tokens

    def _has_batch(self, name: str) -> bool:
        return self.body.has_shape(name) and len(self.body.get_shape(name)) > 0

    def _is_local(self, node: Node) -> bool:
        """Whether a node keeps the batch as its first axis and treats every token alike, and its
        operands do as well.
        """
        used = [name for name in node.inputs if name]
        if len(node.outputs) != 1 or not all(map(self._has_batch, node.outputs)):
            return False
        if any(name in self.varying and name not in self.local for name in used):
            return False
        after = self.body.get_shape(node.outputs[0])
        if node.key in ELEMENTWISE:
            return all(self._is_aligned(name, len(after)) for name in used)
        if node.key not in KEEPS_ORDER or any(operand in self.varying for operand in used[1:]):
            return False
        fixed = all(isinstance(size, int) and size > 0 for size in after[1:])
        return fixed and dims.always_equal(self.body.get_shape(used[0])[0], after[0])

    def _is_aligned(self, name: str, rank: int) -> bool:
        """Whether an operand of an elementwise node broadcasts alike at that rank: with the batch,
        or with fewer axes and the same in every step.
        """
        if not self.body.has_shape(name):
            return False
        if name in self.varying:
            return len(self.body.get_shape(name)) == rank
        inside = name in self.producers or self.body.is_own(name)
        outside = not inside or small_constant(self.body, name) is not None
        return outside and len(self.body.get_shape(name)) < rank

    # -- computing it

    def _collect_operands(self, names: list[str]) -> set[str]:
        """These results and their operands."""
        needed: set[str] = set()
        while names:
            name = names.pop()
            if name not in needed:
                needed.add(name)
                node = self.producers.get(name)
                if node is not None and node is not self.step:
                    names += [operand for operand in node.inputs if operand in self.varying]
        return needed

    def _compute_all(self, needed: set[str]) -> str:
        """Make [B, L, ...] of results [B, ...] of the step; return the state after the last
        token.
        """
        for name, outer in self.scanned.items():
            if name in needed:
                self.computed[name] = permuted(self.graph, outer, self._swapped_axes(name))
        last = ""
        for node in self.body.nodes:
            if node is self.step:
                self.computed[node.outputs[0]], last = self._make_attention()
            elif node.outputs[0] in needed:
                self.computed[node.outputs[0]] = self._of_all_places(node)
        return last

    def _make_attention(self) -> tuple[str, str]:
        """[B, L, 1, H * V] of linear attention over all tokens, and the last state."""
        shape, step = self.body.get_shape, self.step
        inputs = [name and self._flatten_heads(name) for name in step.inputs[:3]]
        inputs.append(self.node.inputs[0])
        inputs += [name and self._flatten_heads(name) for name in step.inputs[4:]]
        read, last = self.graph.make_node(step.op_type, inputs, 2, domain=step.domain, **step.attrs)
        return self._reshape(read, [0, 0, 1, shape(step.outputs[0])[2]]), last

    def _of_all_places(self, node: Node) -> str:
        """The result of another node of the step."""
        if node.key in ELEMENTWISE:
            inputs = [self.computed.get(name) or self._outer_value(name) for name in node.inputs]
            result: str = self.graph.make_node(
                node.op_type, inputs, domain=node.domain, **node.attrs
            )
            return result
        sizes = self.body.get_shape(node.outputs[0])[1:]
        return self._reshape(self.computed[node.inputs[0]], [0, 0, *sizes])

    def _flatten_heads(self, name: str) -> str:
        """[B, L, width] of an operand [B, 1, width] of the step."""
        return self._reshape(self.computed[name], [0, 0, self.body.get_shape(name)[2]])

    def _outer_value(self, name: str) -> str:
        """A value that every step reads, as a result of the outer graph."""
        if name and self.body.is_own(name):
            return self.graph.make_initializer("", small_constant(self.body, name))
        return name

    def _reshape(self, x: str, sizes: list[Any]) -> str:
        """A Reshape to constant sizes, where 0 copies one."""
        target = consts(self.graph, sizes, dtypes.int64)
        result: str = self.graph.make_node("Reshape", [x, target])
        return result

    def _swapped_axes(self, name: str) -> list[int]:
        """The permutation between a scanned result, [L, B, ...], and [B, L, ...]."""
        return [1, 0, *range(2, self.body.get_rank(name) + 1)]

    # -- changing the graph

    @contextmanager
    def _insert_before(self) -> Iterator[None]:
        """Put nodes that are made meanwhile before the Scan, with its origin."""
        graph, origin = self.graph, self.graph.origin
        position = graph.nodes.index(self.node)
        rest = graph.nodes[position:]
        del graph.nodes[position:]
        graph.origin = self.node.origin
        try:
            yield
        finally:
            graph.origin = origin
            graph.nodes.extend(rest)
            graph.outdate_uses()

    def _take_over(self, results: list[str]) -> None:
        """Give the names of the Scan's results to these results."""
        graph, names = self.graph, self.node.outputs
        editing.remove_nodes(graph, [self.node])
        graph.use_index = None
        for result, name in zip(results, names, strict=False):
            if name:
                node = graph.values[result].producer
                node.outputs = [name if output == result else output for output in node.outputs]
                graph.values[name].producer = node
                del graph.values[result]
        graph.outdate_uses()
        editing.drop_dead_results(graph)
