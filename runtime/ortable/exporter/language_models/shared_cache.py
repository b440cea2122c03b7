"""Find out whether the results of a step may be written over its cache.

GroupQueryAttention appends in place where its result is the cache that it reads, which then has
more places than the text has tokens. Called by export.py, and by runner.py for the mark.
"""

from __future__ import annotations

from onnx import GraphProto, ModelProto, NodeProto, helper

from ortable.ir.proto.walk import free_names, graphs_inside

_MARK = "ortable.shared_cache"  # key of the model's metadata
_LENGTH_AXIS = 2
_MASK, _TOKENS = "attention_mask", "input_ids"


def share_cache(model: ModelProto, caches: list[str]) -> bool:
    """Mark the model if its caches may be longer than the text; return whether they may.

    The model then computes the length of the past from the mask and the tokens, where it read it
    from a cache, so it takes caches of any length.
    """
    graph = model.graph
    readers = [node for node in graph.node if _reads_any(node, caches)]
    shapes = [node for node in readers if _is_length(node)]
    attentions = [node for node in readers if node.op_type == "GroupQueryAttention"]
    if len(shapes) + len(attentions) < len(readers) or 2 * len(attentions) < len(caches):
        return False
    _compute_lengths(graph, {node.output[0] for node in shapes})
    model.metadata_props.add(key=_MARK, value="1")
    return True


def is_shared(metadata: dict[str, str]) -> bool:
    """Whether the metadata of a model has the mark."""
    return _MARK in metadata


def _reads_any(node: NodeProto, names: list[str]) -> bool:
    read_names = set(node.input).union(*map(free_names, graphs_inside(node)))
    return not read_names.isdisjoint(names)


def _is_length(node: NodeProto) -> bool:
    """Whether a node reads the length of a cache, and nothing else of it."""
    bounds = {attribute.name: attribute.i for attribute in node.attribute}
    return node.op_type == "Shape" and bounds == {"start": _LENGTH_AXIS, "end": _LENGTH_AXIS + 1}


def _compute_lengths(graph: GraphProto, lengths: set[str]) -> None:
    """Replace the nodes of these results by the difference of the sizes of mask and tokens."""
    nodes = list(graph.node)
    del graph.node[:]
    for node in nodes:
        if lengths.isdisjoint(node.output):
            graph.node.append(node)
            continue
        (length,) = node.output
        sizes = [f"{length}.{name}" for name in (_MASK, _TOKENS)]
        for name, size in zip((_MASK, _TOKENS), sizes, strict=True):
            graph.node.append(helper.make_node("Shape", [name], [size], start=1, end=2))
        graph.node.append(helper.make_node("Sub", sizes, [length]))
