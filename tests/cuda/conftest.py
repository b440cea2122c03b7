"""Skip these tests without CUDA; tests/backend/test_devices.py simulates sessions instead."""

from __future__ import annotations

import pytest
import torch

from benchmarks.cuda.available import missing
from tests.backend.conftest import fresh_compiler  # noqa: F401

collect_ignore_glob = ["test_*.py"] if missing() else []


@pytest.fixture(autouse=True)
def disable_tf32():
    """Disable TF32 for products and convolutions, and let dynamo trace recurrent layers."""
    with (
        torch.backends.cudnn.flags(allow_tf32=False),
        torch._dynamo.config.patch(allow_rnn=True),
    ):
        yield
    torch.cuda.synchronize()
