"""Editing a graph: renaming results, redirecting readers, taking nodes away, and dropping what is
known of results that are gone. In comes a graph and names or nodes; the graph is changed in place.
Called by `Graph`, `passes` and the rules of rewriting. `Uses` is the index of who reads what: made
when it is first asked for, so that making nodes costs nothing."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from ortable import dtypes
from ortable.errors import BuilderError

from .captures import captured, captured_by_protos, inner_graphs, rename_in
from .constants import LazyConstant
from .interface import GraphInterface
from .node import Node


class Uses:
    """Readers of the results of one graph, in the order of its nodes. A node that reads a result
    twice, or inside a graph of its own, is one reader."""

    __slots__ = ("_counted", "_last", "asked", "held", "readers")

    def __init__(self, nodes: Iterable[Node] = (), held: bool = False) -> None:
        self.readers: dict[str, dict[Node, None]] = {}
        self.held = held  # its owner adds and removes nodes, not the graph's list of them
        self.asked = 0  # how often somebody asked for readers
        self._counted = 0
        self._last: Node | None = None
        for node in nodes:
            self.add(node)
            self._counted += 1
            self._last = node

    def follow(self, nodes: list[Node]) -> bool:
        """Adds what was appended to the list of nodes; False when the list was changed
        otherwise."""
        if self.held:
            return True
        count = self._counted
        if len(nodes) < count or (count and nodes[count - 1] is not self._last):
            return False
        for node in nodes[count:]:
            self.add(node)
        self.settle(nodes)
        return True

    def settle(self, nodes: list[Node]) -> None:
        """Says that all of these nodes are in the index."""
        self._counted = len(nodes)
        self._last = nodes[-1] if nodes else None

    def add(self, node: Node) -> None:
        """A node that reads what it reads now."""
        readers = self.readers
        for name in node.inputs:
            found = readers.get(name)
            if found is not None:
                found[node] = None
            elif name:
                readers[name] = {node: None}
        for name in captured(node) if node.attrs else ():
            readers.setdefault(name, {})[node] = None

    def remove(self, node: Node) -> None:
        """Takes a node out; call it before the node's inputs change."""
        readers = self.readers
        for name in (*node.inputs, *captured(node)) if node.attrs else node.inputs:
            found = readers.get(name)
            if found is not None:
                found.pop(node, None)

    def redirect(self, old: str, new: str) -> list[Node]:
        """Every reader of a result reads another one, but for the node that makes that one; these
        readers."""
        found = self.readers.pop(old, None)
        if not found:
            return []
        maker = next((node for node in found if new in node.outputs), None)
        if maker is not None:
            del found[maker]
            self.readers[old] = {maker: None}
        for node in found:
            replace_inputs(node, {old: new})
        self.readers.setdefault(new, {}).update(found)
        return list(found)


def replace_inputs(node: Node, names: Mapping[str, str]) -> None:
    """The node, and the graphs inside it, read other results."""
    if not names.keys().isdisjoint(node.inputs):
        node.inputs = [names.get(each, each) for each in node.inputs]
    for inner in inner_graphs(node) if node.attrs else ():
        rename_in(inner, names)


# -- who reads what


def use_index(graph: GraphInterface) -> Uses:
    """The readers of every result, as they are now."""
    index: Uses | None = graph.use_index
    if index is None or not index.follow(graph.nodes):
        index = graph.use_index = Uses(graph.nodes)
    return index


def uses(graph: GraphInterface, name: str) -> list[Node]:
    """Nodes of the graph that read a result, themselves or in a graph inside them, in order."""
    index = use_index(graph)
    index.asked += 1
    return list(index.readers.get(name, ()))


def is_output(graph: GraphInterface, name: str) -> bool:
    """Whether the result is an output of the graph."""
    return any(info.name == name for info in graph.outputs)


def replace_uses(graph: GraphInterface, old: str, new: str) -> list[Node]:
    """Every node that reads a result reads another one, graphs inside nodes included, but for the
    node that makes the other one; these nodes. An output of the graph stays what it is.

    Raises BuilderError when a subgraph given as GraphProto, which is never changed, reads it."""
    if old == new:
        return []
    index = use_index(graph)
    holders = [node for node in index.readers.get(old, ()) if node.attrs]
    if holders and old in captured_by_protos(holders):
        raise BuilderError(
            f"{old!r} cannot be replaced, a subgraph given as GraphProto reads it ({graph.tag})"
        )
    readers = index.redirect(old, new)
    _outdate_around(graph)
    return readers


def set_inputs(graph: GraphInterface, node: Node, inputs: list[str]) -> None:
    """A node reads other results."""
    index = use_index(graph)
    index.remove(node)
    node.inputs = inputs
    index.add(node)
    _outdate_around(graph)


def _outdate_around(graph: GraphInterface) -> None:
    """What a subgraph reads of the graphs around it may have changed."""
    if graph.parent is not None:
        graph.parent.outdate_uses()


# -- nodes


def remove_nodes(graph: GraphInterface, nodes: Collection[Node]) -> None:
    """Takes nodes out of the graph; what is known of their results stays until `forget`."""
    gone = set(nodes)
    index: Uses | None = graph.use_index
    if index is not None and index.follow(graph.nodes):
        for node in gone:
            index.remove(node)
        graph.nodes[:] = [node for node in graph.nodes if node not in gone]
        index.settle(graph.nodes)
    else:
        graph.nodes[:] = [node for node in graph.nodes if node not in gone]
        graph.use_index = None
    _outdate_around(graph)


def erase(graph: GraphInterface, nodes: Collection[Node]) -> None:
    """Takes nodes out of the graph, and what is known of their results. BuilderError when a result
    is an output or is read by a node that stays."""
    gone = set(nodes)
    for node in nodes:
        for name in node.outputs:
            readers = [each.name for each in uses(graph, name) if each not in gone] if name else []
            if readers or (name and is_output(graph, name)):
                why = f"nodes {readers} read" if readers else "the graph returns"
                raise BuilderError(
                    f"Node {node.name!r} ({node.op_type}) cannot be erased, {why} its result "
                    f"{name!r} ({graph.tag})"
                )
    remove_nodes(graph, gone)
    forget(graph)


def place(graph: GraphInterface, node: Node, behind: Node) -> None:
    """Puts a node, a new one or one of the graph, behind another one; it makes its results."""
    index = use_index(graph)
    if node in graph.nodes:
        graph.nodes.remove(node)
    graph.nodes.insert(graph.nodes.index(behind) + 1, node)
    index.add(node)
    index.settle(graph.nodes)
    for name in node.outputs:
        if name:
            graph.values[name].producer = node
    _outdate_around(graph)


def check_before(graph: GraphInterface, names: Collection[str], node: Node) -> None:
    """Raises BuilderError when one of the results is made by the node or after it."""
    for later in graph.nodes[graph.nodes.index(node) :]:
        for name in later.outputs:
            if name and name in names:
                raise BuilderError(
                    f"{name!r} is not made before node {node.name!r} ({node.op_type}), "
                    f"a node there cannot read it ({graph.tag})"
                )


# -- names


def rename(graph: GraphInterface, names: Mapping[str, str]) -> None:
    """Renames results everywhere in the graph and in the subgraphs that read them."""
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
    graph.dim_results.rename(names)
    for old, info in infos.items():
        if isinstance(info.constant, LazyConstant):
            info.constant = LazyConstant(graph, names[old])
    outdate_history(graph)


def rename_new(graph: GraphInterface, old: str, new: str, first: int) -> None:
    """Gives a free name to a result of the nodes from place ``first`` on: only these read it."""
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
    graph.dim_results.rename_new(old, new, info.shape, holds_sizes)


def _renamed_keys(table: dict[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    return {names.get(name, name): value for name, value in table.items()}


def _renamed_values(table: dict[Any, str], names: Mapping[str, str]) -> dict[Any, str]:
    return {key: names.get(name, name) for key, name in table.items()}


def replace_output(graph: GraphInterface, old: str, new: str) -> None:
    """Another result is the output of the graph; the old one's name is free from now on."""
    before, after = graph.values.pop(old), graph.values[new]
    graph.outputs[:] = [after if info is before else info for info in graph.outputs]
    graph.constant_names.discard(old)
    graph.computed_constants.pop(old, None)


# -- knowledge


def merge_knowledge(graph: GraphInterface, name: str, copy: str) -> None:
    """What is known of the copy is true of the original."""
    info, other = graph.values[name], graph.values[copy]
    info.dtype = info.dtype or other.dtype
    if info.shape is None:
        info.shape = other.shape
    if info.rank is None:
        info.rank = other.rank
    if info.value is None:
        info.value = other.value


def forget(graph: GraphInterface) -> None:
    """Drops what is known of results that are gone, and caches that point to them."""
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
    graph.dim_results.forget(alive)
    outdate_history(graph)


def outdate_history(graph: GraphInterface) -> None:
    """Says that a graph is no longer as it was built: messages list what it has now."""
    graph.edited = True
    graph.history.clear()
