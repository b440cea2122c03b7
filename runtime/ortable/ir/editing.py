"""Edit a graph in place: rename results, redirect readers, remove nodes, drop dead facts.

`Uses` indexes the readers of results. It is built at the first query, so that adding nodes costs
nothing. `Graph`, passes and rewrite rules call these functions.
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


class Uses:
    """Readers of the results of one graph, in the order of its nodes.

    A node that reads a result twice, or inside a graph of its own, is one reader.
    """

    __slots__ = ("_counted", "_last", "is_managed", "query_count", "readers")

    def __init__(self, nodes: Iterable[Node] = (), is_managed: bool = False) -> None:
        self.readers: dict[str, dict[Node, None]] = {}
        self.is_managed = is_managed  # the owner adds and removes nodes itself
        self.query_count = 0  # of readers
        self._counted = 0
        self._last: Node | None = None
        for node in nodes:
            self.add_node(node)
            self._counted += 1
            self._last = node

    def sync_nodes(self, nodes: list[Node]) -> bool:
        """Add nodes appended to the list; return False when the list changed otherwise."""
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
        """Mark all of these nodes as indexed."""
        self._counted = len(nodes)
        self._last = nodes[-1] if nodes else None

    def add_node(self, node: Node) -> None:
        """Index what a node reads now."""
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
        """Remove a node; call this before its inputs change."""
        readers = self.readers
        for name in (*node.inputs, *captured_names(node)) if node.attrs else node.inputs:
            node_readers = readers.get(name)
            if node_readers is not None:
                node_readers.pop(node, None)

    def redirect_readers(self, old: str, new: str) -> list[Node]:
        """Make every reader of ``old`` read ``new``, except the node that makes ``new``.

        Returns the redirected readers.
        """
        moved = self.readers.pop(old, None)
        if not moved:
            return []
        maker = next((node for node in moved if new in node.outputs), None)
        if maker is not None:
            del moved[maker]
            self.readers[old] = {maker: None}
        for node in moved:
            replace_inputs(node, {old: new})
        self.readers.setdefault(new, {}).update(moved)
        return list(moved)


def replace_inputs(node: Node, names: Mapping[str, str]) -> None:
    """Make the node, and the graphs inside it, read other results."""
    if not names.keys().isdisjoint(node.inputs):
        node.inputs = [names.get(name, name) for name in node.inputs]
    for inner in inner_graphs(node) if node.attrs else ():
        rename_captured(inner, names)


# -- who reads what


def use_index(graph: GraphInterface) -> Uses:
    """Return the up-to-date index of readers."""
    index: Uses | None = graph.use_index
    if index is None or not index.sync_nodes(graph.nodes):
        index = graph.use_index = Uses(graph.nodes)
    return index


def find_readers(graph: GraphInterface, name: str) -> list[Node]:
    """Return nodes that read a result, themselves or in a graph inside them, in order."""
    index = use_index(graph)
    index.query_count += 1
    return list(index.readers.get(name, ()))


def is_output(graph: GraphInterface, name: str) -> bool:
    """Return whether the result is an output of the graph."""
    return any(info.name == name for info in graph.outputs)


def replace_uses(graph: GraphInterface, old: str, new: str) -> list[Node]:
    """Make every reader of ``old`` read ``new``, except the node that makes ``new``; return them.

    Graphs inside nodes are included; outputs of the graph stay.

    Raises:
        BuilderError: a subgraph given as GraphProto, which is never changed, reads it.
    """
    if old == new:
        return []
    index = use_index(graph)
    holders = [node for node in index.readers.get(old, ()) if node.attrs]
    if holders and old in captured_by_protos(holders):
        raise BuilderError(
            f"{old!r} cannot be replaced, a subgraph given as GraphProto reads it ({graph.tag})"
        )
    readers = index.redirect_readers(old, new)
    _outdate_around(graph)
    return readers


def set_inputs(graph: GraphInterface, node: Node, inputs: list[str]) -> None:
    """Replace the inputs of a node."""
    index = use_index(graph)
    index.remove_node(node)
    node.inputs = inputs
    index.add_node(node)
    _outdate_around(graph)


def _outdate_around(graph: GraphInterface) -> None:
    """Invalidate the index of the graph around a subgraph that was edited."""
    if graph.parent is not None:
        graph.parent.outdate_uses()


# -- nodes


def remove_nodes(graph: GraphInterface, nodes: Collection[Node]) -> None:
    """Remove nodes; facts of their results stay until `drop_dead_results`."""
    removed = set(nodes)
    index: Uses | None = graph.use_index
    if index is not None and index.sync_nodes(graph.nodes):
        for node in removed:
            index.remove_node(node)
        graph.nodes[:] = [node for node in graph.nodes if node not in removed]
        index.mark_synced(graph.nodes)
    else:
        graph.nodes[:] = [node for node in graph.nodes if node not in removed]
        graph.use_index = None
    _outdate_around(graph)


def erase_nodes(graph: GraphInterface, nodes: Collection[Node]) -> None:
    """Remove nodes and the facts of their results.

    Raises:
        BuilderError: a result is an output, or a node that stays reads it.
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
                why = f"nodes {readers} read" if readers else "the graph returns"
                raise BuilderError(
                    f"Node {node.name!r} ({node.op_type}) cannot be erased, {why} its result "
                    f"{name!r} ({graph.tag})"
                )
    remove_nodes(graph, removed)
    drop_dead_results(graph)


def place_after(graph: GraphInterface, node: Node, after: Node) -> None:
    """Put a node, new or of the graph, after another one, as producer of its results."""
    index = use_index(graph)
    if node in graph.nodes:
        graph.nodes.remove(node)
    graph.nodes.insert(graph.nodes.index(after) + 1, node)
    index.add_node(node)
    index.mark_synced(graph.nodes)
    for name in node.outputs:
        if name:
            graph.values[name].producer = node
    _outdate_around(graph)


def check_before(graph: GraphInterface, names: Collection[str], node: Node) -> None:
    """Check that results are made before the node.

    Raises:
        BuilderError: one is made by the node or after it.
    """
    for later in graph.nodes[graph.nodes.index(node) :]:
        for name in later.outputs:
            if name and name in names:
                raise BuilderError(
                    f"{name!r} is not made before node {node.name!r} ({node.op_type}), "
                    f"a node there cannot read it ({graph.tag})"
                )


# -- names


def rename_results(graph: GraphInterface, names: Mapping[str, str]) -> None:
    """Rename results everywhere in the graph and in the subgraphs that read them."""
    fixed = captured_by_protos(graph.nodes)
    for old in names:
        if old in fixed:
            raise BuilderError(
                f"{old!r} cannot be renamed, a subgraph given as GraphProto reads it ({graph.tag})"
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
    graph.initializers_dict = _renamed_keys(graph.initializers_dict, names)
    graph.declared_shapes = _renamed_keys(graph.declared_shapes, names)
    graph.computed_constants = _renamed_keys(graph.computed_constants, names)
    graph.constant_names = {names.get(name, name) for name in graph.constant_names}
    graph.small_initializers = _renamed_values(graph.small_initializers, names)
    graph.tied_initializers = _renamed_values(graph.tied_initializers, names)
    graph.materializer.rename_results(names)
    for old, info in infos.items():
        if isinstance(info.constant, LazyConstant):
            info.constant = LazyConstant(graph, names[old])
    outdate_history(graph)


def rename_new(graph: GraphInterface, old: str, new: str, first: int) -> None:
    """Give an unused name to a result that only nodes from index ``first`` on read."""
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


def _renamed_keys(table: dict[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    return {names.get(name, name): value for name, value in table.items()}


def _renamed_values(table: dict[Any, str], names: Mapping[str, str]) -> dict[Any, str]:
    return {key: names.get(name, name) for key, name in table.items()}


def replace_output(graph: GraphInterface, old: str, new: str) -> None:
    """Replace an output of the graph; the old result's name becomes unused."""
    before, after = graph.values.pop(old), graph.values[new]
    graph.outputs[:] = [after if info is before else info for info in graph.outputs]
    graph.constant_names.discard(old)
    graph.computed_constants.pop(old, None)


# -- knowledge


def merge_knowledge(graph: GraphInterface, name: str, copy: str) -> None:
    """Copy facts of an equal result to the original where the original lacks them."""
    info, other = graph.values[name], graph.values[copy]
    info.dtype = info.dtype or other.dtype
    if info.shape is None:
        info.shape = other.shape
    if info.rank is None:
        info.rank = other.rank
    if info.value is None:
        info.value = other.value


def drop_dead_results(graph: GraphInterface) -> None:
    """Drop facts of results that no longer exist, and caches that refer to them."""
    alive = {info.name for info in graph.inputs} | set(graph.initializers_dict)
    alive.update(t.values.name for t in graph.sparse_initializers)
    for node in graph.nodes:
        alive.update(node.outputs)
    for name in [name for name in graph.values if name not in alive]:
        del graph.values[name]
    graph.constant_names &= alive
    graph.computed_constants = {k: v for k, v in graph.computed_constants.items() if k in alive}
    graph.small_initializers = {k: v for k, v in graph.small_initializers.items() if v in alive}
    graph.tied_initializers = {k: v for k, v in graph.tied_initializers.items() if v in alive}
    graph.materializer.drop_dead(alive)
    outdate_history(graph)


def outdate_history(graph: GraphInterface) -> None:
    """Mark the graph as edited: messages then list its present state."""
    graph.edited = True
    graph.history.clear()
