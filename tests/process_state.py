"""The state of the process and the thread, which tests must leave unchanged.

The environment is not included: libraries write into it at their first import, and ortable does
not write into it.
"""

from __future__ import annotations

import gc
import os
import sys
from typing import Any

import torch


def process_state() -> dict[str, Any]:
    """Return the current values by name."""
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


def changes(old_state: dict[str, Any]) -> list[str]:
    """Return a message for each value that changed."""
    new_state = process_state()
    return [
        f"{name}: {old_state[name]} before, {new_state[name]} now"
        for name in old_state
        if new_state[name] != old_state[name]
    ]
