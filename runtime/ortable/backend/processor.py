"""The processor that this process runs on, in words: what was measured on one does not hold on
another. Called by `autotune.decisions` and `sessions.tune`."""

from __future__ import annotations

import functools
import hashlib
import os
import platform
from pathlib import Path

__all__ = ["processor"]


@functools.cache
def processor() -> str:
    """The kind of the processors, how many this process may use, and their instructions."""
    path = Path("/proc/cpuinfo")
    lines = path.read_text().splitlines() if path.exists() else []
    told = dict(line.split(":", 1) for line in reversed(lines) if ":" in line)
    named = {key.strip(): value.strip() for key, value in told.items()}
    flags = named.get("flags", named.get("Features", ""))
    kind = named.get("model name") or platform.processor() or platform.machine()
    allowed = getattr(os, "sched_getaffinity", None)
    count = len(allowed(0)) if allowed is not None else os.cpu_count()
    return f"{count} x {kind}, {hashlib.sha256(flags.encode()).hexdigest()[:12]}"
