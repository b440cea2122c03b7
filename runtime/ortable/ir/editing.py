"""Edit a graph in place: rename results, redirect readers, remove nodes, remove stale facts.

`UseIndex` lists the readers of results. The graph builds it at the first query, so that adding
nodes costs nothing. `Graph`, passes and rewrite rules call these functions.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from ortable import dtypes
from ortable.errors import BuilderError

from .captures import captured_by_protos, captured_names, inner_graphs, rename_captured
from .constants import LazyConstant
from .interface import GraphInterface
from .node import Node


class UseIndex:
    """Index of the nodes that read each result of a graph, in the order in which they were added.

    A node whose subgraph reads a result is a reader. ``Add(x, x)`` is listed once for ``x``.
    """

    __slots__ = ("_counted", "_last", "is_managed", "query_count", "readers")

    def __init__(self, nodes: Iterable[Node] = (), is_managed: bool = False) -> None:
        self.readers: dict[str, dict[Node, None]] = {}
        self.is_managed = is_managed  # the owner calls add_node and remove_node, not sync_nodes
        self.query_count = 0  # number of calls of find_readers
        self._counted = 0
        self._last: Node | None = None
        for node in nodes:
            self.add_node(node)
            self._counted += 1
            self._last = node

    def sync_nodes(self, nodes: list[Node]) -> bool:
        """Index nodes appended to ``nodes`` since the last call.

        Returns False if the list is shorter or another node is at the last indexed position; other
        changes of indexed nodes are not detected.
        """
        if self.is_managed:
            return True
        count = self._counted
        if len(nodes) < count or (count and nodes[count - 1] is not self._last):
            return False
        for node in nodes[count:]:
            self.add_node(node)
        self.mark_synced(nodes)
        return True

    def mark_synced(self, nodes: list[Node]) -> None:
        """Mark all nodes of the list as indexed."""
        self._counted = len(nodes)
        self._last = nodes[-1] if nodes else None

    def add_node(self, node: Node) -> None:
        """Index a node as reader of its inputs and of the results that its subgraphs read."""
        readers = self.readers
        for name in node.inputs:
            node_readers = readers.get(name)
            if node_readers is not None:
                node_readers[node] = None
            elif name:
                readers[name] = {node: None}
        for name in captured_names(node) if node.attrs else ():
            readers.setdefault(name, {})[node] = None

    def remove_node(self, node: Node) -> None:
        """Remove a node from the index; must be called before the inputs of the node change."""
        readers = self.readers
        for name in (*node.inputs, *captured_names(node)) if node.attrs else node.inputs:
            node_readers = readers.get(name)
            if node_readers is not None:
                node_readers.pop(node, None)

    def redirect_readers(self, old: str, new: str) -> list[Node]:
        """Make all readers of ``old``, except the node that makes ``new``, read ``new``.

        Returns the redirected readers.
        """
        old_readers = self.readers.pop(old, None)
        if not old_readers:
            return []
        producer = next((node for node in old_readers if new in node.outputs), None)
        if producer is not None:
            del old_readers[producer]
            self.readers[old] = {producer: None}
        for node in old_readers:
            replace_inputs(node, {old: new})
        self.readers.setdefault(new, {}).update(old_readers)
        return list(old_readers)


def replace_inputs(node: Node, names: Mapping[str, str]) -> None:
    """Make a node and its subgraphs read other results: ``names`` maps old results to new."""
    if not names.keys().isdisjoint(node.inputs):
        node.inputs = [names.get(name, name) for name in node.inputs]
    for inner in inner_graphs(node) if node.attrs else ():
        rename_captured(inner, names)


# -- readers of results


def use_index(graph: GraphInterface) -> UseIndex:
    """Return the index of readers, brought up to date."""
    index: UseIndex | None = graph.use_index
    if index is None or not index.sync_nodes(graph.nodes):
        index = graph.use_index = UseIndex(graph.nodes)
    return index


def find_readers(graph: GraphInterface, name: str) -> list[Node]:
    """Return the nodes that read a result directly or in a subgraph."""
    index = use_index(graph)
    index.query_count += 1
    return list(index.readers.get(name, ()))


def is_output(graph: GraphInterface, name: str) -> bool:
    """Whether the result is an output of the graph."""
    return any(info.name == name for info in graph.outputs)


def replace_uses(graph: GraphInterface, old: str, new: str) -> list[Node]:
    """Make all readers of ``old``, except the node that makes ``new``, read ``new``.

    Readers in subgraphs are included. Outputs of the graph do not change. Returns the redirected
    readers.

    Raises:
        BuilderError: a subgraph given as GraphProto, which is never changed, reads ``old``.
    """
    if old == new:
        return []
    index = use_index(graph)
    readers_with_attrs = [node for node in index.readers.get(old, ()) if node.attrs]
    if readers_with_attrs and old in captured_by_protos(readers_with_attrs):
        raise BuilderError(
            f"{old!r} cannot be replaced: a subgraph given as GraphProto reads it ({graph.tag})"
        )
    readers = index.redirect_readers(old, new)
    _invalidate_parent_uses(graph)
    return readers


def set_inputs(graph: GraphInterface, node: Node, inputs: list[str]) -> None:
    """Replace the inputs of a node and update the index of readers."""
    index = use_index(graph)
    index.remove_node(node)
    node.inputs = inputs
    index.add_node(node)
    _invalidate_parent_uses(graph)


def _invalidate_parent_uses(graph: GraphInterface) -> None:
    """Discard the indexes of the graphs that enclose ``graph``, if it is a subgraph."""
    if graph.parent is not None:
        graph.parent.outdate_uses()


# -- nodes


def remove_nodes(graph: GraphInterface, nodes: Collection[Node]) -> None:
    """Remove nodes; `drop_dead_results` must remove the facts of their results later."""
    removed = set(nodes)
    index: UseIndex | None = graph.use_index
    if index is not None and index.sync_nodes(graph.nodes):
        for node in removed:
            index.remove_node(node)
        graph.nodes[:] = [node for node in graph.nodes if node not in removed]
        index.mark_synced(graph.nodes)
    else:
        graph.nodes[:] = [node for node in graph.nodes if node not in removed]
        graph.use_index = None
    _invalidate_parent_uses(graph)


def erase_nodes(graph: GraphInterface, nodes: Collection[Node]) -> None:
    """Remove nodes and the facts of their results.

    Raises:
        BuilderError: a result of a removed node is an output, or a remaining node reads it.
    """
    removed = set(nodes)
    for node in nodes:
        for name in node.outputs:
            readers = (
                [reader.name for reader in find_readers(graph, name) if reader not in removed]
                if name
                else []
            )
            if readers or (name and is_output(graph, name)):
                reason = f"nodes {readers} read" if readers else "the graph returns"
                raise BuilderError(
                    f"Node {node.name!r} ({node.op_type}) cannot be erased: {reason} its result "
                    f"{name!r} ({graph.tag})"
                )
    remove_nodes(graph, removed)
    drop_dead_results(graph)


def place_after(graph: GraphInterface, node: Node, after: Node) -> None:
    """Insert or move ``node`` behind ``after`` and make it the producer of its outputs."""
    index = use_index(graph)
    if node in graph.nodes:
        graph.nodes.remove(node)
    graph.nodes.insert(graph.nodes.index(after) + 1, node)
    index.add_node(node)
    index.mark_synced(graph.nodes)
    for name in node.outputs:
        if name:
            graph.values[name].producer = node
    _invalidate_parent_uses(graph)


def check_before(graph: GraphInterface, names: Collection[str], node: Node) -> None:
    """Raise BuilderError if one of ``names`` is a result of ``node`` or of a later node."""
    for later_node in graph.nodes[graph.nodes.index(node) :]:
        for name in later_node.outputs:
            if name and name in names:
                raise BuilderError(
                    f"{name!r} is not made before node {node.name!r} ({node.op_type}), "
                    f"so a node inserted there cannot read it ({graph.tag})"
                )


# -- names


def rename_results(graph: GraphInterface, names: Mapping[str, str]) -> None:
    """Rename results everywhere in the graph and in the subgraphs that read them.

    Raises:
        BuilderError: a subgraph given as GraphProto, which is never changed, reads a result.
    """
    names_in_protos = captured_by_protos(graph.nodes)
    for old in names:
        if old in names_in_protos:
            raise BuilderError(
                f"{old!r} cannot be renamed: a subgraph given as GraphProto reads it ({graph.tag})"
            )
    infos = {old: graph.values.pop(old) for old in names}
    for old, info in infos.items():
        info.name = names[old]
        graph.values[info.name] = info
        graph.result_names.reserve(info.name)
    for node in graph.nodes:
        replace_inputs(node, names)
        if any(name in names for name in node.outputs):
            node.outputs = [names.get(name, name) for name in node.outputs]
    graph.outdate_uses()
    graph.initializers_dict = _rename_keys(graph.initializers_dict, names)
    graph.declared_types = _rename_keys(graph.declared_types, names)
    graph.computed_constants = _rename_keys(graph.computed_constants, names)
    graph.constant_names = {names.get(name, name) for name in graph.constant_names}
    graph.small_initializers = _rename_values(graph.small_initializers, names)
    graph.tied_initializers = _rename_values(graph.tied_initializers, names)
    graph.materializer.rename_results(names)
    for old, info in infos.items():
        if isinstance(info.constant, LazyConstant):
            info.constant = LazyConstant(graph, names[old])
    invalidate_history(graph)


def rename_recent_result(graph: GraphInterface, old: str, new: str, first: int) -> None:
    """Rename a result to the unused name ``new``, in ``graph.nodes[first:]``.

    Earlier nodes must not make or read the result.
    """
    info = graph.values.pop(old)
    info.name = new
    graph.values[new] = info
    graph.result_names.reserve(new)
    graph.result_names.release(old)
    for node in graph.nodes[first:]:
        replace_inputs(node, {old: new})
        if old in node.outputs:
            node.outputs = [new if name == old else name for name in node.outputs]
    graph.use_index = None
    if old in graph.constant_names:
        graph.constant_names.discard(old)
        graph.constant_names.add(new)
        if old in graph.computed_constants:
            graph.computed_constants[new] = graph.computed_constants.pop(old)
        if isinstance(info.constant, LazyConstant):
            info.constant = LazyConstant(graph, new)
    if old in graph.numbers:
        graph.numbers[new] = graph.numbers.pop(old)
    holds_sizes = info.dtype == dtypes.int64 and (info.rank or 0) < 2
    graph.materializer.rename_new(old, new, info.shape, holds_sizes)


def _rename_keys(table: dict[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    return {names.get(name, name): value for name, value in table.items()}


def _rename_values(table: dict[Any, str], names: Mapping[str, str]) -> dict[Any, str]:
    return {key: names.get(name, name) for key, name in table.items()}


def replace_output(graph: GraphInterface, old: str, new: str) -> None:
    """Make ``new`` an output of the graph in place of ``old``, and remove the facts of ``old``."""
    old_info, new_info = graph.values.pop(old), graph.values[new]
    graph.outputs[:] = [new_info if info is old_info else info for info in graph.outputs]
    graph.constant_names.discard(old)
    graph.computed_constants.pop(old, None)


# -- known facts


def merge_facts(graph: GraphInterface, name: str, equal_name: str) -> None:
    """Copy facts that ``name`` lacks from ``equal_name``, the name of an equal result."""
    target, source = graph.values[name], graph.values[equal_name]
    target.dtype = target.dtype or source.dtype
    if target.shape is None:
        target.shape = source.shape
    if target.rank is None:
        target.rank = source.rank
    if target.value is None:
        target.value = source.value


def drop_dead_results(graph: GraphInterface) -> None:
    """Remove the facts and cache entries of results that no longer exist."""
    alive = {info.name for info in graph.inputs} | set(graph.initializers_dict)
    alive.update(sparse.values.name for sparse in graph.sparse_initializers)
    for node in graph.nodes:
        alive.update(node.outputs)
    for name in [name for name in graph.values if name not in alive]:
        del graph.values[name]
    graph.constant_names &= alive
    graph.computed_constants = {k: v for k, v in graph.computed_constants.items() if k in alive}
    graph.small_initializers = {k: v for k, v in graph.small_initializers.items() if v in alive}
    graph.tied_initializers = {k: v for k, v in graph.tied_initializers.items() if v in alive}
    graph.materializer.drop_dead(alive)
    invalidate_history(graph)


def invalidate_history(graph: GraphInterface) -> None:
    """Mark the graph as edited, so that messages list its current nodes instead of the history."""
    graph.edited = True
    graph.history.clear()
