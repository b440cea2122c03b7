"""The three basic passes, and renaming.  Each walks the graph once; names of graph inputs and
outputs, and names read inside subgraphs, are kept."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ortable import dims, dtypes
from ortable.errors import BuilderError
from ortable.ir import Graph, constants, initializers
from ortable.ir.captures import captured, captured_by_protos, rename_in, subgraphs
from ortable.ir.node import Node
from ortable.ir.origins import Rewritten
from ortable.ir.state import GraphState
from ortable_generated.onnx.traits import KEEPS_WEIGHTS

_NO_LIMIT = float("inf")


def remove_unused(graph: Graph) -> int:
    """Removes nodes none of whose outputs is needed, then initializers that nobody reads."""
    needed = {info.name for info in graph.outputs}
    kept: list[Node] = []
    removed = 0
    for node in reversed(graph.nodes):
        if not any(name in needed for name in node.outputs if name):
            removed += 1
            continue
        for inner in subgraphs(node) if node.attrs else ():
            if isinstance(inner, GraphState):
                removed += remove_unused(inner)  # type: ignore[arg-type]
        kept.append(node)
        needed.update(node.inputs)
        needed |= captured(node)
    if removed:
        kept.reverse()
        graph.nodes[:] = kept
    inputs = {info.name for info in graph.inputs}
    for name in [n for n in graph.initializers_dict if n not in needed and n not in inputs]:
        del graph.initializers_dict[name]
        removed += 1
    if removed:
        forget(graph)
    return removed


def remove_identity_nodes(graph: Graph) -> int:
    """Removes Identity nodes: readers of the copy read the original. A copy that is a graph
    output gives its name to the original, unless that is an input, an initializer, another
    output, or from outside."""
    removed = 0
    fixed = captured_by_protos(graph.nodes)
    outputs = {info.name for info in graph.outputs}
    readers: dict[str, str] = {}
    kept: list[Node] = []
    for node in graph.nodes:
        if readers:
            replace_inputs(node, readers)
        (source, copy) = _identity(node)
        if source and copy not in outputs and copy not in fixed:
            readers[copy] = source
            merge_knowledge(graph, source, copy)
            removed += 1
        else:
            kept.append(node)
        for inner in subgraphs(node) if node.attrs else ():
            if isinstance(inner, GraphState):
                removed += remove_identity_nodes(inner)  # type: ignore[arg-type]
    own = {name for node in kept for name in node.outputs}
    renamed: dict[str, str] = {}
    last: list[Node] = []
    for node in kept:
        (source, copy) = _identity(node)
        free = source in own and source not in outputs and source not in fixed
        if source and copy in outputs and free and source not in renamed and copy not in fixed:
            renamed[source] = copy
            merge_knowledge(graph, source, copy)
            removed += 1
        else:
            last.append(node)
    if removed:
        graph.nodes[:] = last
    if renamed:
        for source, copy in renamed.items():
            _drop_value(graph, copy, keep=source)
        rename(graph, renamed)
    if removed:
        forget(graph)
    return removed


def _identity(node: Node) -> tuple[str, str]:
    if node.op_type == "Identity" and not node.domain:
        return node.inputs[0], node.outputs[0]
    return "", ""


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


def _drop_value(graph: Graph, name: str, keep: str) -> None:
    """Removes the record of an output whose name passes to another result."""
    old, new = graph.values.pop(name), graph.values[keep]
    graph.outputs[:] = [new if info is old else info for info in graph.outputs]
    graph._constants.discard(name)
    graph._computed.pop(name, None)


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
        if isinstance(info.constant, constants.LazyConstant):
            info.constant = constants.LazyConstant(graph, names[old])
    rebuild_history(graph)


def _renamed_keys(table: dict[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    return {names.get(name, name): value for name, value in table.items()}


def constant_folding(graph: Graph, max_bytes: int, weights: bool = False) -> int:
    """Replaces nodes whose inputs are constants by initializers of at most ``max_bytes``.

    ``weights``: those that rules made in place of a weight may be of any size. Results read by
    nobody else than folded nodes vanish in `remove_unused`. Random operators stay, and so does
    what would store a weight once more, or quantised weights as floats."""
    folded = 0
    kept: list[Node] = []
    stay: set[str] = set()
    outputs = {info.name for info in graph.outputs}
    for node in graph.nodes:
        for inner in subgraphs(node) if node.attrs else ():
            if isinstance(inner, GraphState):
                folded += constant_folding(inner, max_bytes, weights)  # type: ignore[arg-type]
        limit = _NO_LIMIT if weights and isinstance(node.origin, Rewritten) else max_bytes
        if _stores_more(graph, node) or not stay.isdisjoint(node.inputs):
            stay.update(node.outputs)
            stay.discard("")
        elif outputs.isdisjoint(node.outputs) and _can_fold(graph, node, limit):
            try:
                arrays = [constants.get_constant(graph, n) if n else None for n in node.outputs]
            except BuilderError:
                kept.append(node)  # the reference implementation lacks it: the runtime has it
                continue
            if all(a is None or a.nbytes <= limit for a in arrays):
                for name, array in zip(node.outputs, arrays, strict=True):
                    if name and array is not None:
                        _become_initializer(graph, name, array)
                folded += 1
                continue
        kept.append(node)
    if folded:
        graph.nodes[:] = kept
        rebuild_history(graph)
    return folded


def _stores_more(graph: Graph, node: Node) -> bool:
    """Whether the node reads a weight of 8 bits or less, or turns one: what others read as it is
    would be stored twice (see merge.turn_weights)."""
    if node.key in KEEPS_WEIGHTS:
        return any(name in graph.initializers_dict for name in node.inputs)
    for name in node.inputs:
        value = graph.initializers_dict.get(name)
        if value is not None and initializers.dtype_of(value) in _QUANTISED:
            size = initializers.size_of(value)
            return size > 1 and any(_bytes_of(graph, each) >= size for each in node.outputs)
    return False


def _bytes_of(graph: Graph, name: str) -> float:
    """How many bytes a result takes; infinity when that is not known."""
    info = graph.values.get(name) if name else None
    if info is None or info.shape is None:
        return 0 if not name else float("inf")
    size = dims.prod(info.shape)
    if not isinstance(size, int):
        return float("inf")
    return size * dtypes.ITEMSIZE.get(info.dtype or 0, 1)


_QUANTISED = frozenset(
    {
        dtypes.int8,
        dtypes.uint8,
        dtypes.float8e4m3fn,
        dtypes.float8e4m3fnuz,
        dtypes.float8e5m2,
        dtypes.float8e5m2fnuz,
        *dtypes.SUB_BYTE,
    }
)


def _can_fold(graph: Graph, node: Node, max_bytes: float) -> bool:
    if not all(name in graph._constants for name in node.outputs if name):
        return False
    for name in node.outputs:
        info = graph.values.get(name) if name else None
        size = 1 if info is None or info.shape is None else dims.prod(info.shape)
        if info is None or not isinstance(size, int):
            continue
        if size * dtypes.ITEMSIZE.get(info.dtype or 0, 1) > max_bytes:
            return False
    return True


def _become_initializer(graph: Graph, name: str, array: np.ndarray) -> None:
    info = graph.values[name]
    graph.initializers_dict[name] = array
    graph._computed.pop(name, None)
    info.producer = None
    info.shape, info.rank = array.shape, array.ndim
    info.dtype = info.dtype or dtypes.from_numpy(array.dtype)
    if array.size <= initializers.SMALL:
        info.constant = array
        if info.value is None:
            info.value = initializers.known_value(array)


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
