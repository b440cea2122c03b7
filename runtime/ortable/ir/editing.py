"""Editing a graph: renaming results, redirecting readers, and dropping what is known of results
that are gone. In comes a graph and names; the graph is changed in place. Called by `passes`,
`builder` and the rules of rewriting."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ortable.errors import BuilderError

from .captures import captured_by_protos, rename_in, subgraphs
from .constants import LazyConstant
from .graph import Graph
from .node import Node
from .state import GraphState


def replace_inputs(node: Node, names: Mapping[str, str]) -> None:
    """The node, and the graphs inside it, read other results."""
    if any(name in names for name in node.inputs):
        node.inputs = [names.get(name, name) for name in node.inputs]
    for inner in subgraphs(node) if node.attrs else ():
        if isinstance(inner, GraphState):
            rename_in(inner, names)


def merge_knowledge(graph: Graph, name: str, copy: str) -> None:
    """What is known of the copy is true of the original."""
    info, other = graph.values[name], graph.values[copy]
    info.dtype = info.dtype or other.dtype
    if info.shape is None:
        info.shape = other.shape
    if info.rank is None:
        info.rank = other.rank
    if info.value is None:
        info.value = other.value


def rename(graph: Graph, names: Mapping[str, str]) -> None:
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
        graph._names.reserve(info.name)
    for node in graph.nodes:
        replace_inputs(node, names)
        if any(name in names for name in node.outputs):
            node.outputs = [names.get(name, name) for name in node.outputs]
    graph.initializers_dict = _renamed_keys(graph.initializers_dict, names)
    graph._declared = _renamed_keys(graph._declared, names)
    graph._computed = _renamed_keys(graph._computed, names)
    graph._constants = {names.get(name, name) for name in graph._constants}
    graph._small = {key: names.get(name, name) for key, name in graph._small.items()}
    graph._tied = {key: names.get(name, name) for key, name in graph._tied.items()}
    table = graph.dim_results
    table.vectors = {key: names.get(name, name) for key, name in table.vectors.items()}
    table.shapes = {key: names.get(name, name) for key, name in table.shapes.items()}
    table.sources = {
        key: source._replace(result=names.get(source.result, source.result))
        for key, source in table.sources.items()
    }
    for old, info in infos.items():
        if isinstance(info.constant, LazyConstant):
            info.constant = LazyConstant(graph, names[old])
    rebuild_history(graph)


def _renamed_keys(table: dict[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    return {names.get(name, name): value for name, value in table.items()}


def forget(graph: Graph) -> None:
    """Drops what is known of results that are gone, and caches that point to them."""
    alive = {info.name for info in graph.inputs} | set(graph.initializers_dict)
    alive.update(t.values.name for t in graph.sparse_initializers)
    for node in graph.nodes:
        alive.update(node.outputs)
    for name in [name for name in graph.values if name not in alive]:
        del graph.values[name]
    graph._constants &= alive
    graph._computed = {k: v for k, v in graph._computed.items() if k in alive}
    graph._small = {k: v for k, v in graph._small.items() if v in alive}
    graph._tied = {k: v for k, v in graph._tied.items() if v in alive}
    graph.dim_results.forget(alive)
    rebuild_history(graph)


def rebuild_history(graph: Graph) -> None:
    """Steps shown in messages, for a graph that is no longer as it was built."""
    graph._history = [
        *(("make_tensor_input", info.name) for info in graph.inputs),
        *(("make_initializer", name) for name in graph.initializers_dict),
        *(("make_node", node) for node in graph.nodes),
        *(("make_tensor_output", info.name) for info in graph.outputs),
    ]
