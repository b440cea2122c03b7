"""Turn a Scan whose step is one token of linear attention into linear attention over all tokens.

Runs after the rules, for ONNX Runtime: rule file `ort_recurrence` has turned the step inside the
Scan into a LinearAttention node. The pass computes the operands of this node, which derive from
the scanned inputs, and the nodes that read its result for all tokens at once. Called by
`passes.pipeline`.

A result of a step, [B, ...], becomes [B, L, ...] for all tokens, the layout of LinearAttention.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from ortable import dims, dtypes
from ortable.ir import Graph, editing
from ortable.ir.captures import inner_graphs, read_names
from ortable.ir.node import Node
from ortable.passes.analysis.constants import find_producer, small_constant
from ortable.prelude.values import consts, permuted
from ortable_generated.onnx.traits import ELEMENTWISE, KEEPS_ORDER

_STEP = "com.microsoft::LinearAttention"


def merge_scanned_attention(graph: Graph) -> int:
    """Replace Scans whose step is linear attention, also in subgraphs; return their number."""
    count = 0
    for node in list(graph.nodes):
        subgraphs = inner_graphs(node) if node.attrs else ()
        count += sum(merge_scanned_attention(subgraph) for subgraph in subgraphs)
        if node.key == "Scan":
            scan = _find_scanned(graph, node)
            count += scan is not None and scan.merge_scan()
    return count


def _find_scanned(graph: Graph, node: Node) -> _ScannedAttention | None:
    """Return a Scan whose single state only linear attention reads and updates, else None."""
    body = node.attrs["body"]
    has_standard_form = set(node.attrs) == {"body", "num_scan_inputs"} and isinstance(body, Graph)
    if not has_standard_form or len(node.inputs) != int(node.attrs["num_scan_inputs"]) + 1:
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
    """A Scan, its body, and the results of the body that are computed for all tokens.

    ``token_wise`` are the results that treat every token alike, ``varying`` those that can differ
    between steps. ``outer_inputs`` maps scanned inputs, and results of a Gather of the step's part,
    to results of the outer graph, whose axis of the tokens is in ``token_axes``;
    ``all_token_results`` maps computed results of the body to those for all tokens.
    """

    def __init__(self, graph: Graph, node: Node, step: Node) -> None:
        self.graph = graph
        self.node = node
        self.step = step
        self.body: Graph = node.attrs["body"]
        self.producers = {
            name: body_node for body_node in self.body.nodes for name in body_node.outputs if name
        }
        self.outer_inputs = {
            info.name: outer
            for info, outer in zip(self.body.inputs[1:], node.inputs[1:], strict=True)
        }
        self.token_axes = dict.fromkeys(self.outer_inputs, 0)
        for body_node in self.body.nodes:
            axis = self._token_axis(body_node) if body_node.key == "Gather" else None
            if axis is not None:
                (name,) = body_node.outputs
                self.outer_inputs[name], self.token_axes[name] = body_node.inputs[0], axis
        self.all_token_results: dict[str, str] = {}
        self.varying = {*self.outer_inputs, *step.outputs}
        self.token_wise = {
            name for name in (*self.outer_inputs, step.outputs[0]) if self._has_batch(name)
        }
        for body_node in self.body.nodes:
            if not self.varying.isdisjoint(body_node.inputs):
                self.varying.update(body_node.outputs)
                if body_node is not step and self._is_token_wise(body_node):
                    self.token_wise.add(body_node.outputs[0])

    def merge_scan(self) -> bool:
        """Replace the Scan if all tokens can be computed at once; return whether it was."""
        operands = [name for index, name in enumerate(self.step.inputs) if name and index != 3]
        scan_outputs = [info.name for info in self.body.outputs[1:]]
        if not self.token_wise.issuperset(
            (*operands, *scan_outputs)
        ) or not self.outer_inputs.keys().isdisjoint(scan_outputs):
            return False
        with self._insert_before():
            last = self._compute_all(self._collect_operands([*operands, *scan_outputs]))
            stacked = [
                permuted(self.graph, self.all_token_results[name], self._swapped_axes(name))
                for name in scan_outputs
            ]
        self._replace_scan([last, *stacked])
        return True

    # -- nodes that can be computed for all tokens at once

    def _token_axis(self, node: Node) -> int | None:
        """Return the axis of an outer result from which a Gather takes each step's part."""
        table, step = node.inputs
        is_outer = table not in self.producers and not self.body.is_own(table)
        if not is_outer or step not in self.outer_inputs or not self.graph.has_shape(table):
            return None
        sizes, count = self.graph.get_shape(table), self._count_of(self.outer_inputs[step])
        axis = int(node.attrs.get("axis", 0)) % len(sizes)
        return axis if count is not None and dims.always_equal(count, sizes[axis]) else None

    def _count_of(self, name: str) -> Any:
        """Return n if a result is the numbers 0, 1, ..., n - 1; else None."""
        value = small_constant(self.graph, name)
        if value is not None:
            return value.size if np.array_equal(value, np.arange(value.size)) else None
        node = find_producer(self.graph, name, "Range")
        if node is None or not self.graph.has_shape(name):
            return None
        bounds = [small_constant(self.graph, node.inputs[index]) for index in (0, 2)]
        return self.graph.get_shape(name)[0] if bounds == [0, 1] else None

    def _has_batch(self, name: str) -> bool:
        return self.body.has_shape(name) and len(self.body.get_shape(name)) > 0

    def _is_token_wise(self, node: Node) -> bool:
        """Whether a node and its operands keep the batch first and treat every token alike."""
        operands = [name for name in node.inputs if name]
        if len(node.outputs) != 1 or not all(map(self._has_batch, node.outputs)):
            return False
        if any(name in self.varying and name not in self.token_wise for name in operands):
            return False
        shape = self.body.get_shape(node.outputs[0])
        if node.key in ELEMENTWISE:
            return all(self._is_aligned(name, len(shape)) for name in operands)
        if node.key not in KEEPS_ORDER or any(operand in self.varying for operand in operands[1:]):
            return False
        is_fixed = all(isinstance(size, int) and size > 0 for size in shape[1:])
        return is_fixed and dims.always_equal(self.body.get_shape(operands[0])[0], shape[0])

    def _is_aligned(self, name: str, rank: int) -> bool:
        """Whether an operand broadcasts over all tokens as over one token.

        It does if it varies and has full rank, or if it is the same in every step, has a lower rank
        and is available in the outer graph.
        """
        if not self.body.has_shape(name):
            return False
        if name in self.varying:
            return len(self.body.get_shape(name)) == rank
        is_in_body = name in self.producers or self.body.is_own(name)
        is_available_in_outer_graph = not is_in_body or small_constant(self.body, name) is not None
        return is_available_in_outer_graph and len(self.body.get_shape(name)) < rank

    # -- computation for all tokens

    def _collect_operands(self, worklist: list[str]) -> set[str]:
        """Return these results and all results of the body that they depend on and that vary."""
        needed: set[str] = set()
        while worklist:
            name = worklist.pop()
            if name not in needed:
                needed.add(name)
                node = None if name in self.outer_inputs else self.producers.get(name)
                if node is not None and node is not self.step:
                    worklist += [operand for operand in node.inputs if operand in self.varying]
        return needed

    def _compute_all(self, needed: set[str]) -> str:
        """Compute the needed results of the step for all tokens; return the last state."""
        for name, outer in self.outer_inputs.items():
            if name in needed:
                self.all_token_results[name] = permuted(self.graph, outer, self._swapped_axes(name))
        final_state = ""
        for node in self.body.nodes:
            if node is self.step:
                self.all_token_results[node.outputs[0]], final_state = self._make_attention()
            elif node.outputs[0] in needed - self.outer_inputs.keys():
                self.all_token_results[node.outputs[0]] = self._compute_for_all_tokens(node)
        return final_state

    def _make_attention(self) -> tuple[str, str]:
        """Make linear attention over all tokens, [B, L, 1, H * V]; return it and the last state."""
        shape, step = self.body.get_shape, self.step
        inputs = [name and self._flatten_heads(name) for name in step.inputs[:3]]
        inputs.append(self.node.inputs[0])
        inputs += [name and self._flatten_heads(name) for name in step.inputs[4:]]
        attended, last = self.graph.make_node(
            step.op_type, inputs, 2, domain=step.domain, **step.attrs
        )
        return self._reshape(attended, [0, 0, 1, shape(step.outputs[0])[2]]), last

    def _compute_for_all_tokens(self, node: Node) -> str:
        """Compute the result of an elementwise or reshaping node of the step for all tokens."""
        if node.key in ELEMENTWISE:
            inputs = [
                self.all_token_results.get(name) or self._outer_value(name) for name in node.inputs
            ]
            result: str = self.graph.make_node(
                node.op_type, inputs, domain=node.domain, **node.attrs
            )
            return result
        sizes = self.body.get_shape(node.outputs[0])[1:]
        return self._reshape(self.all_token_results[node.inputs[0]], [0, 0, *sizes])

    def _flatten_heads(self, name: str) -> str:
        """Return [B, L, width] for an operand [B, 1, width] of the step."""
        return self._reshape(self.all_token_results[name], [0, 0, self.body.get_shape(name)[2]])

    def _outer_value(self, name: str) -> str:
        """Return a value that is the same in every step as a result of the outer graph."""
        if name and self.body.is_own(name):
            return self.graph.make_initializer("", small_constant(self.body, name))
        return name

    def _reshape(self, x: str, sizes: list[Any]) -> str:
        """Make a Reshape to constant sizes; a size of 0 copies the size of the input."""
        target = consts(self.graph, sizes, dtypes.int64)
        result: str = self.graph.make_node("Reshape", [x, target])
        return result

    def _swapped_axes(self, name: str) -> list[int]:
        """Return the permutation from a result with an axis of tokens L to [B, L, ...].

        It is its own inverse for a scanned result, [L, B, ...].
        """
        tokens = self.token_axes.get(name, 0)
        batch, *others = (x for x in range(self.body.get_rank(name) + 1) if x != tokens)
        return [batch, tokens, *others]

    # -- graph edits

    @contextmanager
    def _insert_before(self) -> Iterator[None]:
        """Insert nodes that are made inside the `with` block before the Scan, with its origin."""
        graph, origin = self.graph, self.graph.origin
        position = graph.nodes.index(self.node)
        following_nodes = graph.nodes[position:]
        del graph.nodes[position:]
        graph.origin = self.node.origin
        try:
            yield
        finally:
            graph.origin = origin
            graph.nodes.extend(following_nodes)
            graph.outdate_uses()

    def _replace_scan(self, results: list[str]) -> None:
        """Remove the Scan and give the names of its results to these results."""
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
