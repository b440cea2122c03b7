"""The graph under construction: results, nodes, inputs, outputs, initializers, with types and
shapes. In come calls of converters, rules and passes; out goes, through `ir.proto`, a model. Called
by words, `lowerings`, `passes`, and through `builder` by everybody else."""

from __future__ import annotations

from .context import LoweringContext
from .graph import Graph
from .node import Node
from .result import ResultSpec

__all__ = ["Graph", "LoweringContext", "Node", "ResultSpec"]
