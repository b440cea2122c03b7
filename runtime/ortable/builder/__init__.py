"""GraphBuilder, the public interface of `ir` and `passes`.

Users build an ONNX graph with it node by node, start from a model, optimize, and write a model;
`interpreter` fills one from an FX graph.
"""

from __future__ import annotations

from ortable.ir import Node, ResultSpec
from ortable.ir.proto.large_model import LargeModel

from .graph import GraphBuilder

__all__ = ["GraphBuilder", "LargeModel", "Node", "ResultSpec"]
