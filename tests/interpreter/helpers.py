"""Short ways to convert a module and to run what came out."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime
import torch

from ortable.builder import GraphBuilder
from ortable.interpreter.interpreter import DynamoInterpreter

from .small_tables import TABLES


def export(module: torch.nn.Module, *args: Any, **kwargs: Any) -> torch.export.ExportedProgram:
    return torch.export.export(module, args, **kwargs)


def interpret(graph_module: Any, **kwargs: Any) -> DynamoInterpreter:
    """The interpreter after its run over ``graph_module``, opset 18, with the tables of the
    tests."""
    kwargs.setdefault("tables", TABLES)
    interpreter = DynamoInterpreter(GraphBuilder(18), **kwargs)
    interpreter.run(graph_module)
    return interpreter


def run(interpreter: DynamoInterpreter, *inputs: Any) -> list[np.ndarray]:
    """Outputs of the ONNX graph in ONNX Runtime."""
    model = interpreter.builder.to_onnx()
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    names = [value.name for value in session.get_inputs()]
    feeds = {
        name: value.numpy() if isinstance(value, torch.Tensor) else np.asarray(value)
        for name, value in zip(names, inputs, strict=True)
    }
    return session.run(None, feeds)


class Function(torch.nn.Module):
    """A module around a function."""

    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: Any) -> Any:
        return self.function(*args)
