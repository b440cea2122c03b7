"""Convert a module, and run the converted graph."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from ortable.builder import GraphBuilder
from ortable.interpreter.interpreter import DynamoInterpreter
from tests import onnx_runs

from .small_tables import TABLES


def export(module: torch.nn.Module, *args: Any, **kwargs: Any) -> torch.export.ExportedProgram:
    return torch.export.export(module, args, **kwargs)


def interpret(graph_module: Any, **kwargs: Any) -> DynamoInterpreter:
    """Run an interpreter over ``graph_module`` at opset 18 with the tables of the tests."""
    kwargs.setdefault("tables", TABLES)
    interpreter = DynamoInterpreter(GraphBuilder(18), **kwargs)
    interpreter.run(graph_module)
    return interpreter


def run(interpreter: DynamoInterpreter, *inputs: Any) -> list[np.ndarray]:
    """Run the ONNX graph in ONNX Runtime and return its outputs."""
    outputs = onnx_runs.run(interpreter.builder.to_onnx(), *map(torch.as_tensor, inputs))
    return [output.numpy() for output in outputs]
