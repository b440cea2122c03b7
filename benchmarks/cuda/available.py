"""Check whether the CUDA provider of ONNX Runtime can run on this machine."""

from __future__ import annotations

import onnxruntime
import torch


def missing() -> str | None:
    """Return why models cannot run on CUDA here, or None if they can."""
    if not torch.cuda.is_available():
        return f"torch {torch.__version__} sees no CUDA device"
    providers = onnxruntime.get_available_providers()
    if "CUDAExecutionProvider" not in providers:
        return (
            f"onnxruntime {onnxruntime.__version__} has {', '.join(providers)} only: install "
            "onnxruntime-gpu in place of onnxruntime"
        )
    return None
