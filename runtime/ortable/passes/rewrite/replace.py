"""Replace one match: build the new nodes and check them against the replaced results.

If a new result has another dtype or shape, the graph is restored. Called by the engine.
"""

from __future__ import annotations

from typing import Any

from ortable import dims
from ortable.dtypes import name as dtype_name
from ortable.errors import OrtableError
from ortable.inference.shape import ValueInfo
from ortable.ir.captures import read_names
from ortable.ir.editing import replace_inputs
from ortable.ir.node import Node, RewriteOrigin
from ortable.ir.result import ResultSpec
from ortable.ir.state import describe_shape

from .index import GraphIndex
from .rule import Match, Rule


class ReplacementRejected(Exception):
    """The replacement of a match is not valid; the message is the reason."""


class Replacement:
    """A replacement of a match; the graph is unchanged if `run` raises ReplacementRejected."""

    def __init__(self, index: GraphIndex, rule: Rule, match: Match) -> None:
        self.index = index
        self.graph = index.graph
        self.rule = rule
        self.match = match
        producers = index.matcher.producers
        roots = [producers[name] for name in match.results]
        self.roots = list(dict.fromkeys(roots))
        self.position = min(index.keys[node] for node in self.roots)
        self.old_infos: dict[str, ValueInfo] = {}
        self.old_constants: list[str] = []  # the replaced results that are constants
        self.quantization_run = _quantization_run(self.graph)
        self.rounded_before = (
            {} if self.quantization_run is None else dict(self.quantization_run.rounded)
        )

    def run(self) -> tuple[list[Node], list[Node]]:
        """Replace the match; return the nodes around the change and the new nodes."""
        self._check_closed()
        graph = self.graph
        origin = graph.origin
        graph.analysis_results.clear()
        graph.origin = RewriteOrigin(self.rule.name, self.match.nodes[0].origin)
        try:
            built = self._build_nodes()
            nodes = list(graph.nodes)
            self._check_order(nodes)
            results = [
                self._check_result(*pair) for pair in zip(self.old_infos, built, strict=True)
            ]
            targets = [
                self._name_result(*pair, nodes)
                for pair in zip(self.old_infos, results, strict=True)
            ]
        except ReplacementRejected:
            self._restore_graph()
            raise
        except OrtableError as error:
            self._restore_graph()
            raise ReplacementRejected(str(error).splitlines()[0]) from None
        except KeyError as error:  # the replacement reads a size of the replaced result itself
            self._restore_graph()
            if error.args[0] not in self.old_infos:
                raise
            raise ReplacementRejected(
                f"the replacement reads {error.args[0]}, which it replaces"
            ) from None
        finally:
            graph.origin = origin
            graph.nodes[:] = []
            graph.analysis_results.clear()
        return self._install_nodes(nodes, targets), nodes

    def _check_closed(self) -> None:
        """Reject the match if a result inside the pattern is read outside or is an output."""
        nodes, results = self.match.nodes, self.match.results
        shared = self.match.shared
        uses, is_output = self.index.matcher.uses, self.index.is_output
        for node in nodes:
            if node in shared:
                continue
            for name in node.outputs:
                if not name or name in results:
                    continue
                if is_output(name) or not all(reader in nodes for reader in uses.get(name, ())):
                    raise ReplacementRejected(f"{name} is read elsewhere")

    def _build_nodes(self) -> list[str | None]:
        graph = self.graph
        for name in self.match.results:
            self.old_infos[name] = graph.values.pop(name)
            if name in graph.constant_names:
                self.old_constants.append(name)
                graph.constant_names.discard(name)
        infos = list(self.old_infos.values())
        res = ResultSpec(list(self.old_infos), [i.dtype for i in infos], [i.shape for i in infos])
        result = self.rule.make(graph, res, *self.match.values)
        results = list(result) if isinstance(result, (tuple, list)) else [result]
        if len(results) != len(self.old_infos):
            raise ReplacementRejected(
                f"the replacement has {len(results)} results instead of {len(self.old_infos)}"
            )
        return results

    def _check_order(self, nodes: list[Node]) -> None:
        """Check that the producers that new nodes read precede the match, or move them."""
        index = self.index
        new_names = {name for node in nodes for name in node.outputs}
        for node in nodes:
            replace_inputs(node, index.aliases)
            for name in read_names(node) - new_names:
                if name in index.removed:
                    index.restore_producer(name)
                producer = index.matcher.producers.get(name)
                if producer is None or (
                    index.keys[producer] < self.position and producer not in self.roots
                ):
                    continue
                if not index.move_before(name, self.position, self.roots):
                    raise ReplacementRejected(f"{name} comes later in the graph")

    def _check_result(self, name: str, result: str | None) -> str | None:
        """Return the result that replaces ``name``; reject a result that cannot replace it."""
        if result is None:
            if self.index.is_read(name):
                raise ReplacementRejected(f"the replacement does not give {name}, which is read")
            return None
        result = self.index.aliases.get(result, result)
        info = self.graph.values.get(result)
        if info is None:
            raise ReplacementRejected(
                f"the replacement gives {result!r}, which is no result of the graph"
            )
        self._check_same(name, self.old_infos[name], info)
        replaces_identity = any(root.op_type == "Identity" for root in self.roots)
        if replaces_identity and result != name and self.index.is_output(name):
            raise ReplacementRejected(f"{name} is an output")
        return result

    def _name_result(self, name: str, result: str | None, nodes: list[Node]) -> str:
        """Return what the readers of ``name`` read: ``name`` if a new node can produce it."""
        if result is None:
            return name
        if result != name:
            is_new = any(result in node.outputs for node in nodes)
            if is_new and result not in self.old_infos:
                self._rename_result(result, name, nodes)
            elif self.index.is_output(name):
                self.graph.make_node("Identity", [result], [name])
                nodes.append(self.graph.nodes[-1])
            else:
                if _merge_facts(self.graph.values[result], self.old_infos[name]):
                    self.index.refined_results += 1
                return result
        self._reuse_value_info(name, self.old_infos[name])
        return name

    def _check_same(self, name: str, replaced: ValueInfo, info: ValueInfo) -> None:
        if replaced.dtype != info.dtype:
            dtypes = [dtype_name(x.dtype) if x.dtype else "unknown" for x in (replaced, info)]
            raise ReplacementRejected(f"{name} would have type {dtypes[1]} instead of {dtypes[0]}")
        if replaced.shape is None:
            raise ReplacementRejected(f"the shape of {name} is not known")
        if info.shape is not None:
            ranks_differ = len(replaced.shape) != len(info.shape)
            if ranks_differ or any(map(dims.always_differ, replaced.shape, info.shape)):
                shapes = [describe_shape(x) for x in (replaced.shape, info.shape)]
                raise ReplacementRejected(
                    f"{name} would have shape {shapes[1]} instead of {shapes[0]}"
                )
        elif info.rank is not None and info.rank != len(replaced.shape):
            raise ReplacementRejected(
                f"{name} would have rank {info.rank} instead of {len(replaced.shape)}"
            )

    def _rename_result(self, result: str, name: str, nodes: list[Node]) -> None:
        """Rename a new result to the result that it replaces."""
        values = self.graph.values
        info = values.pop(result)
        info.name = name
        values[name] = info
        for node in nodes:
            replace_inputs(node, {result: name})
            node.outputs = [name if output == result else output for output in node.outputs]
        if result in self.graph.constant_names:
            self.graph.constant_names.discard(result)
            self.graph.constant_names.add(name)
        self.index.add_alias(result, name)
        values[result] = info  # the old name may still be looked up

    def _reuse_value_info(self, name: str, old: ValueInfo) -> None:
        """Keep the ValueInfo of the replaced result, because graph.outputs may hold this object."""
        values = self.graph.values
        info = values[name]
        _merge_facts(info, old)
        old.dtype, old.shape, old.rank, old.value = (info.dtype, info.shape, info.rank, info.value)
        old.constant, old.producer = info.constant, info.producer
        values[name] = old

    def _restore_graph(self) -> None:
        graph = self.graph
        for node in graph.nodes:
            for name in node.outputs:
                graph.values.pop(name, None)
                graph.constant_names.discard(name)
        graph.materializer.drop_dead(graph.values)
        graph.values.update(self.old_infos)
        graph.constant_names.update(self.old_constants)
        if self.quantization_run is not None:  # without the new nodes, no weight was quantized
            self.quantization_run.rounded = self.rounded_before

    def _install_nodes(self, nodes: list[Node], targets: list[str]) -> list[Node]:
        index = self.index
        names_read_by_match = {name for node in self.match.nodes for name in read_names(node)}
        for node in self.roots:
            index.remove_node(node)
            for name in node.outputs:
                index.removed.pop(name, None)
        for position, node in enumerate(nodes):
            index.add_node(node, (*self.position, position))
        affected = list(nodes)
        for name, target in zip(self.old_infos, targets, strict=True):
            if target != name:
                affected += index.redirect_readers(name, target)
                self.graph.values[name] = self.old_infos[name]  # may still be looked up
        return affected + index.drop_unread(names_read_by_match)


def _quantization_run(graph: Any) -> Any:
    """Return the quantization run of the main graph, or None."""
    while graph.parent is not None:
        graph = graph.parent
    return graph.rounding


def _merge_facts(info: ValueInfo, replaced: ValueInfo) -> bool:
    """Add facts about the replaced result to the new result; return whether they refine it."""
    known_before = info.dtype, info.shape, info.value
    info.dtype = info.dtype or replaced.dtype
    if info.shape is None:
        info.shape, info.rank = replaced.shape, replaced.rank
    elif replaced.shape is not None:
        info.shape = tuple(
            b if isinstance(b, int) else a for a, b in zip(info.shape, replaced.shape, strict=True)
        )
    if info.value is None:
        info.value = replaced.value
    return known_before != (info.dtype, info.shape, info.value)
