"""Models of ONNX, run in ONNX Runtime on the CPU. In come a model and tensors, out come tensors.
Called by tests of every topic."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime
import torch


def run(model: Any, *args: torch.Tensor) -> list[torch.Tensor]:
    """Return the results of a ModelProto, or of a program that holds one.

    Args:
        model: what is run, in a session of its own.
        args: a tensor for each input, in the order of the inputs.
    """
    proto = getattr(model, "model_proto", model)
    session = onnxruntime.InferenceSession(
        proto.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    names = [value.name for value in session.get_inputs()]
    feeds = {name: arg.detach().numpy() for name, arg in zip(names, args, strict=True)}
    return [torch.from_numpy(np.asarray(each)) for each in session.run(None, feeds)]
