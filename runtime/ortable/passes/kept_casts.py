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

# dtypes whose numbers float16 holds
_HELD = (dtypes.float16, dtypes.boolean, dtypes.int8, dtypes.uint8)


def keep_casts(graph: Graph) -> int:
    """Reshape the program's casts to float16, also in control flow; return their number."""
    inner = sum(keep_casts(body) for node in graph.nodes for body in inner_graphs(node))
    casts = [
        node
        for node in graph.nodes
        if node.op_type == "Cast"
        and (name := node.outputs[0]) in graph.ctx.casts
        and graph.get_type(name) == dtypes.float16
        and graph.get_type(node.inputs[0]) not in _HELD
        and graph.has_rank(name)
        and editing.find_readers(graph, name)
    ]
    for node in casts:
        name = node.outputs[0]
        sizes = np.zeros(graph.get_rank(name), np.int64)  # 0: the size of the input
        origin, graph.origin = graph.origin, node.origin
        result = graph.make_node("Reshape", [name, graph.make_initializer("", sizes)])
        graph.origin = origin
        editing.place_after(graph, graph.values[result].producer, node)
        editing.replace_uses(graph, name, result)
    return len(casts) + inner
