"""Whether the CUDA provider can run here: in comes nothing, out comes None or what is missing.
Called where these tests are collected, by `python -m tests.cuda` and by benchmarks.cuda."""

from __future__ import annotations

import onnxruntime
import torch

__all__ = ["missing"]


def missing() -> str | None:
    """What keeps the tests of this folder from running; None where nothing does."""
    if not torch.cuda.is_available():
        return f"torch {torch.__version__} sees no CUDA device"
    known = onnxruntime.get_available_providers()
    if "CUDAExecutionProvider" not in known:
        return (
            f"onnxruntime {onnxruntime.__version__} has {', '.join(known)} only: install "
            "onnxruntime-gpu in place of onnxruntime"
        )
    return None
