"""Keep the casts to float16 that the program itself makes.

ONNX Runtime's CPU provider casts to float32 and back around most operators of float16, and removes
pairs of casts, also where the model has one of the two: `x.half() > 1` compared float32. A Reshape
to the same shape, which shares the memory of its input, stands between the casts.

Source: ONNX Runtime's insert_cast_transformer.cc (RemoveDuplicateCastTransformer).
"""

from __future__ import annotations

import numpy as np

from ortable import dtypes
from ortable.ir import Graph, editing
from ortable.ir.captures import inner_graphs
from ortable.ir.node import Node

# dtypes whose numbers float16 holds
_HELD = (dtypes.float16, dtypes.boolean, dtypes.int8, dtypes.uint8)


def keep_casts(graph: Graph) -> int:
    """Reshape the program's casts to float16, also in control flow; return their number."""
    inner = sum(keep_casts(body) for node in graph.nodes for body in inner_graphs(node))
    casts = [node for node in graph.nodes if _is_rounding_cast(graph, node)]
    for node in casts:
        (name,) = node.outputs
        sizes = np.zeros(graph.get_rank(name), np.int64)  # 0: the size of the input
        origin, graph.origin = graph.origin, node.origin
        result = graph.make_node("Reshape", [name, graph.make_initializer("", sizes)])
        graph.origin = origin
        editing.place_after(graph, graph.values[result].producer, node)
        editing.replace_uses(graph, name, result)
    return len(casts) + inner


def _is_rounding_cast(graph: Graph, node: Node) -> bool:
    """Whether a node is a cast of the program to float16 that may round, and that a node reads."""
    if node.op_type != "Cast" or node.attrs.get("to") != dtypes.float16:
        return False
    name = node.outputs[0]
    return (
        name in graph.ctx.casts
        and graph.get_type(node.inputs[0]) not in _HELD
        and graph.has_rank(name)
        and bool(editing.find_readers(graph, name))
    )
