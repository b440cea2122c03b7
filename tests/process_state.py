"""What belongs to the whole process, or what a caller finds again in its thread. Comes out by name;
called by tests/conftest.py around each test, and by tests/faults around each interrupt."""

from __future__ import annotations

import os
import sys
from typing import Any

import torch

# pytest says here which phase of a test runs; torch, once, where its compiler keeps its files.
_OF_OTHERS = ("PYTEST_CURRENT_TEST", "TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR")


def process_state() -> dict[str, Any]:
    """Each of them as it is now."""
    umask = os.umask(0)
    os.umask(umask)
    return {
        "umask": umask,
        "working directory": os.getcwd(),
        "environment": {name: os.environ[name] for name in os.environ if name not in _OF_OTHERS},
        "recursion limit": sys.getrecursionlimit(),
        "default dtype": torch.get_default_dtype(),
        "default device": torch.get_default_device(),
        "gradients": torch.is_grad_enabled(),
        "inference mode": torch.is_inference_mode_enabled(),
        "autocast": torch.is_autocast_enabled("cpu"),
        "threads": torch.get_num_threads(),
        "deterministic": torch.are_deterministic_algorithms_enabled(),
    }


def changes(before: dict[str, Any]) -> list[str]:
    """What is not as it was, in words."""
    now = process_state()
    return [
        f"{name}: {_only(before[name], now[name])} before, {_only(now[name], before[name])} now"
        for name in before
        if now[name] != before[name]
    ]


def _only(value: Any, other: Any) -> Any:
    """A value; of a table, the entries that the other one has not."""
    return dict(value.items() - other.items()) if isinstance(value, dict) else value
