"""Run ONNX models in ONNX Runtime on the CPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime
import torch


def run(model: Any, *args: torch.Tensor) -> list[torch.Tensor]:
    """Return the results of a ModelProto, or of a program that contains one.

    Args:
        model: the model, which runs in a new session.
        args: a tensor for each input, in the order of the inputs.
    """
    proto = getattr(model, "model_proto", model)
    session = onnxruntime.InferenceSession(
        proto.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    names = [value.name for value in session.get_inputs()]
    feeds = {name: arg.detach().numpy() for name, arg in zip(names, args, strict=True)}
    return [torch.from_numpy(np.asarray(result)) for result in session.run(None, feeds)]
