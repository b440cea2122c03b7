"""What `ortable.backend.timing` measured, and where. One candidate is measured twice; how far its
two series differ is the band in which nothing can be told (the A/A band)."""

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
    """Seconds of one call, garbage collected before; and what it returned."""
    gc.collect()
    started = time.perf_counter()
    result = function()
    return time.perf_counter() - started, result


def after_pauses(calls: Mapping[str, Call], rounds: int) -> dict[str, list[float]]:
    """Seconds of single calls of every candidate, one figure per round: before each call nothing
    ran for a while, so that threads which wait busily have gone to sleep."""
    return measure_round_robin(calls, rounds, lambda name: time_block(calls[name], 1, warm=False))


def band(found: Mapping[str, Sequence[float]], name: str, again: str) -> float:
    """Half the width of the band in which a ratio says nothing: between two series of one
    candidate, the difference of the medians or the middle half of the ratios, whichever is more."""
    ratios = sorted(a / b for a, b in zip(found[name], found[again], strict=True))
    middle = abs(statistics.median(ratios) - 1)
    quarter = len(ratios) // 4
    return max(middle, (ratios[-1 - quarter] - ratios[quarter]) / 2)


def geomean(values: Sequence[float]) -> float:
    """Geometric mean; NaN for no values."""
    return statistics.geometric_mean(values) if values else float("nan")


def reason(error: Exception) -> str:
    """Why a candidate has no figures, in one line: a cell of the table."""
    said = Text.from_ansi(str(error)).plain.strip()  # torch.onnx colours its messages
    return f"{type(error).__name__}: {(said.splitlines() or ['no message'])[0]}"


def in_process(module: str, job: str, passed: Sequence[str], threads: int) -> dict[str, Any]:
    """The record of one job of a package (``--one``, ``--json``), measured by a process of its own;
    ``failed`` in it says why there is none."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "record.json"
        done = subprocess.run(
            [sys.executable, "-m", module, *passed, "--one", job, "--json", str(path)],
            env={**os.environ, "OMP_NUM_THREADS": str(threads)},
            capture_output=True,
            text=True,
        )
        if done.returncode or not path.exists():
            last = (done.stderr.strip().splitlines() or ["no message"])[-1]
            return {"failed": f"exit code {done.returncode}: {last}"}
        return dict(json.loads(path.read_text()))


def origin() -> dict[str, Any]:
    """What records were made of: the commit, the day, and the version of each package."""
    import datetime
    from importlib.metadata import PackageNotFoundError, version

    root = Path(__file__).resolve().parent.parent
    found = subprocess.run(
        ["git", "describe", "--always", "--dirty"], cwd=root, capture_output=True, text=True
    )
    versions = {}
    for name in ("torch", "onnx", "onnxruntime", "numpy", "onnxscript", "transformers"):
        try:
            versions[name] = version(name).split("+")[0]
        except PackageNotFoundError:
            versions[name] = "-"
    return {
        "commit": found.stdout.strip() or "unknown",
        "date": datetime.date.today().isoformat(),
        "versions": versions,
    }


def machine(threads: int) -> str:
    """The processors, as far as they matter to a ratio."""
    import platform

    import torch

    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    told = dict(line.split(":", 1) for line in lines if ":" in line)
    named = {key.strip(): value.strip() for key, value in told.items()}
    flags = set(named.get("flags", "").split())
    known = ("avx512f", "AVX-512"), ("avx2", "AVX2"), ("avx", "AVX")
    vectors = next((text for flag, text in known if flag in flags), "")
    cores = os.cpu_count()
    kind = platform.machine().replace("_", "-").lower()
    which = [f"{key} {named[key]}" for key in ("cpu family", "model") if key in named]
    model = f" ({', '.join([named['model name'], *which])})" if "model name" in named else ""
    return (
        f"{cores} cores, {kind}{f' with {vectors}' if vectors else ''}{model}, {threads} threads; "
        f"torch {torch.__version__.split('+')[0]}, Python {platform.python_version()}"
    )
