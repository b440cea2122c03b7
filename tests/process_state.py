"""What belongs to the whole process, or what a caller finds again in its thread. Comes out by name;
called by tests/conftest.py around each test, and by tests/faults around each interrupt. The
environment is not among them: libraries write into it when they are first imported, and nothing of
ours does."""

from __future__ import annotations

import gc
import os
import sys
from typing import Any

import torch


def process_state() -> dict[str, Any]:
    """Each of them as it is now."""
    umask = os.umask(0)
    os.umask(umask)
    return {
        "umask": umask,
        "working directory": os.getcwd(),
        "garbage collector": gc.isenabled(),
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
        f"{name}: {before[name]} before, {now[name]} now"
        for name in before
        if now[name] != before[name]
    ]
