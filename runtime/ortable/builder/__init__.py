"""Public graph builder: `GraphBuilder` and the types that its methods take and return.

Users build an ONNX graph node by node, start from a model, optimize the graph, and write a model.
The interpreter fills a `GraphBuilder` from an FX graph.
"""

from __future__ import annotations

from ortable.ir import Node, ResultSpec
from ortable.ir.proto.large_model import LargeModel

from .graph import GraphBuilder

__all__ = ["GraphBuilder", "LargeModel", "Node", "ResultSpec"]
