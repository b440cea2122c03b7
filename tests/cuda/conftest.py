"""These tests need a GPU, torch for CUDA and onnxruntime-gpu: `make gpu`. Elsewhere none is
collected, and tests/backend/test_devices.py stands for them with simulated sessions."""

from __future__ import annotations

import pytest
import torch

from benchmarks.cuda.available import missing
from tests.backend.conftest import fresh_compiler  # noqa: F401

collect_ignore_glob = ["test_*.py"] if missing() else []


@pytest.fixture(autouse=True)
def exact_products():
    """Products and convolutions of float32 are those of float32; dynamo takes recurrent layers."""
    with (
        torch.backends.cudnn.flags(allow_tf32=False),
        torch._dynamo.config.patch(allow_rnn=True),
    ):
        yield
    torch.cuda.synchronize()
