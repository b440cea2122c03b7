"""What no graph of ortable holds, since an optimizer of ONNX Runtime does not keep its meaning."""

from __future__ import annotations

from collections.abc import Iterator

import onnx

_NEVER = ("Bernoulli", "CenterCropPad")


def nodes_of(graph: onnx.GraphProto) -> Iterator[onnx.NodeProto]:
    """The nodes of a graph and of those inside it."""
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                yield from nodes_of(attribute.g)


def unsafe_nodes(model: onnx.ModelProto) -> list[str]:
    """Operators of the model's nodes that take sizes for some axes only, and of those that are
    never written."""
    inner = [node for function in model.functions for node in function.node]
    found = []
    for node in (*nodes_of(model.graph), *inner):
        some_pads = node.op_type == "Pad" and len(node.input) > 3 and node.input[3]
        some_sizes = node.op_type == "Resize" and any(a.name == "axes" for a in node.attribute)
        if some_pads or some_sizes or node.op_type in _NEVER:
            found.append(node.op_type)
    return found
