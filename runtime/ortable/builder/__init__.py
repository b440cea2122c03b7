"""GraphBuilder: containers of an ONNX graph under construction, with types and shapes of every
result. Protobuf is read once at the start (`reader`) and written once at the end (`serialize`)."""

from __future__ import annotations

from .graph import GraphBuilder
from .large_model import LargeModel
from .node import Node
from .result import Res

__all__ = ["GraphBuilder", "LargeModel", "Node", "Res"]
