"""The graph under construction: results, nodes, inputs, outputs and initializers.

Lowerings and passes edit the graph, `ir.proto` reads and writes models, and `builder` is the public
interface.
"""

from __future__ import annotations

from .context import LoweringContext
from .graph import Graph
from .node import Node
from .result import ResultSpec

__all__ = ["Graph", "LoweringContext", "Node", "ResultSpec"]
