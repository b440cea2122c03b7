"""Helpers of all benchmarks: timing, the noise band, subprocesses, and versions and machine.

One candidate is measured twice. The difference between its two series is the noise band (the A/A
band): a ratio within it is not significant.
"""

from __future__ import annotations

import gc
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.text import Text

from ortable.backend.timing import Call, measure_round_robin, time_block


def timed(function: Callable[[], Any]) -> tuple[float, Any]:
    """Collect garbage, call `function`, and return the seconds of the call and its result."""
    gc.collect()
    start = time.perf_counter()
    result = function()
    return time.perf_counter() - start, result


def after_pauses(calls: Mapping[str, Call], rounds: int) -> dict[str, list[float]]:
    """Return seconds of single calls, after pauses in which spinning threads go to sleep."""
    return measure_round_robin(calls, rounds, lambda name: time_block(calls[name], 1, warm=False))


def band(seconds: Mapping[str, Sequence[float]], name: str, repeat: str) -> float:
    """Return the half-width of the noise band, from two series of one candidate.

    It is the deviation of the median ratio from 1, or half the interquartile range of the ratios,
    whichever is larger.
    """
    ratios = sorted(a / b for a, b in zip(seconds[name], seconds[repeat], strict=True))
    middle = abs(statistics.median(ratios) - 1)
    quarter = len(ratios) // 4
    return max(middle, (ratios[-1 - quarter] - ratios[quarter]) / 2)


def geomean(values: Sequence[float]) -> float:
    """Return the geometric mean, or NaN for no values."""
    return statistics.geometric_mean(values) if values else float("nan")


def reason(error: Exception) -> str:
    """Format an error as one line for a cell of a table."""
    message = Text.from_ansi(str(error)).plain.strip()  # torch.onnx writes colour codes
    return f"{type(error).__name__}: {(message.splitlines() or ['no message'])[0]}"


def in_process(module: str, job: str, arguments: Sequence[str], threads: int) -> dict[str, Any]:
    """Measure one job of a package in a subprocess; a failed job has only the key ``failed``."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "record.json"
        process = subprocess.run(
            [sys.executable, "-m", module, *arguments, "--one", job, "--json", str(path)],
            env={**os.environ, "OMP_NUM_THREADS": str(threads)},
            capture_output=True,
            text=True,
        )
        if process.returncode or not path.exists():
            last_line = (process.stderr.strip().splitlines() or ["no message"])[-1]
            return {"failed": f"exit code {process.returncode}: {last_line}"}
        return dict(json.loads(path.read_text()))


def origin() -> dict[str, Any]:
    """Return the commit, the date and the package versions of a run."""
    import datetime
    from importlib.metadata import PackageNotFoundError, version

    root = Path(__file__).resolve().parent.parent
    process = subprocess.run(
        ["git", "describe", "--always", "--dirty"], cwd=root, capture_output=True, text=True
    )
    versions = {}
    for name in ("torch", "onnx", "onnxruntime", "numpy", "onnxscript", "transformers"):
        try:
            versions[name] = version(name).split("+")[0]
        except PackageNotFoundError:
            versions[name] = "-"
    return {
        "commit": process.stdout.strip() or "unknown",
        "date": datetime.date.today().isoformat(),
        "versions": versions,
    }


def machine(threads: int) -> str:
    """Describe the processor, the number of threads, and the versions of torch and Python."""
    import platform

    import torch

    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    fields = dict(line.split(":", 1) for line in lines if ":" in line)
    cpu = {key.strip(): value.strip() for key, value in fields.items()}
    flags = set(cpu.get("flags", "").split())
    extensions = ("avx512f", "AVX-512"), ("avx2", "AVX2"), ("avx", "AVX")
    simd = next((label for flag, label in extensions if flag in flags), "")
    cores = os.cpu_count()
    arch = platform.machine().replace("_", "-").lower()
    details = [f"{key} {cpu[key]}" for key in ("cpu family", "model") if key in cpu]
    model = f" ({', '.join([cpu['model name'], *details])})" if "model name" in cpu else ""
    return (
        f"{cores} cores, {arch}{f' with {simd}' if simd else ''}{model}, {threads} threads; "
        f"torch {torch.__version__.split('+')[0]}, Python {platform.python_version()}"
    )
