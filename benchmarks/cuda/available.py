"""Whether the CUDA provider can run here: in comes nothing, out comes None or what is missing.
Called by this benchmark, by `python -m tests.cuda`, and where those tests are collected."""

from __future__ import annotations

import onnxruntime
import torch


def missing() -> str | None:
    """What keeps models from running on CUDA here; None where nothing does."""
    if not torch.cuda.is_available():
        return f"torch {torch.__version__} sees no CUDA device"
    known = onnxruntime.get_available_providers()
    if "CUDAExecutionProvider" not in known:
        return (
            f"onnxruntime {onnxruntime.__version__} has {', '.join(known)} only: install "
            "onnxruntime-gpu in place of onnxruntime"
        )
    return None
