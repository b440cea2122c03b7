"""The graph under construction: results, nodes, inputs, outputs and initializers.

Lowerings and passes edit it, `ir.proto` reads and writes models, and `builder` is its public face.
"""

from __future__ import annotations

from .context import LoweringContext
from .graph import Graph
from .node import Node
from .result import ResultSpec

__all__ = ["Graph", "LoweringContext", "Node", "ResultSpec"]
