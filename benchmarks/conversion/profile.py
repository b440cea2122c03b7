"""Where ortable's time goes in a conversion (``--profile``): own time by part of the converter, and
the functions that cost most. ExportedPrograms in, printed tables out."""

from __future__ import annotations

import argparse
import cProfile
import gc
import pstats
from pathlib import Path
from typing import Any

import ortable
import ortable_generated
from benchmarks.sessions import quiet

from .measure import exported

# What is not the converter's own, by the path of the function: the first part that matches.
LIBRARIES = (
    ("google/protobuf", "protobuf"),
    ("/onnx/", "onnx"),
    ("numpy/", "numpy"),
    ("/sympy/", "sympy"),
    ("/torch/", "torch"),
)
OWN = tuple(Path(each.__path__[0]) for each in (ortable, ortable_generated))


def phase(filename: str) -> str:
    """The package of the converter, or the library, that a function's file belongs to."""
    if filename == "~":
        return "C functions (built-ins, protobuf, torch)"
    for package in OWN:
        if Path(filename).is_relative_to(package):
            inner = Path(filename).relative_to(package).with_suffix("").parts[0]
            return f"{package.name}.{inner.partition('_')[0] or inner}"
    path = filename.replace("\\", "/")
    return next((label for part, label in LIBRARIES if part in path), "Python's library")


def profile(ep: Any, opset: int, large: bool, top: int) -> None:
    """One conversion under cProfile: own time by package, then the functions that cost most.

    The profiler charges every Python call, so the shares lean towards small functions.
    """
    gc.collect()
    profiler = cProfile.Profile()
    profiler.runcall(ortable.to_onnx, ep, target_opset=opset, large_model=large)
    stats = pstats.Stats(profiler)
    rows = [(*key, *value[:4]) for key, value in stats.stats.items()]  # type: ignore[attr-defined]
    total = sum(row[5] for row in rows)
    phases: dict[str, tuple[int, float]] = {}
    for filename, _line, _name, _primitive, calls, own, _cumulative in rows:
        count, seconds = phases.get(phase(filename), (0, 0.0))
        phases[phase(filename)] = count + calls, seconds + own
    title = "weights left in torch" if large else "one ModelProto"
    print(f"\nprofile, {title}: {total:.3f} s under cProfile")
    for label, (count, seconds) in sorted(phases.items(), key=lambda item: -item[1][1]):
        print(f"  {seconds:8.4f} s  {100 * seconds / total:5.1f} %  {count:9d} calls  {label}")
    print("  own time, function")
    for filename, line, name, _, calls, own, _ in sorted(rows, key=lambda row: -row[5])[:top]:
        place = "" if filename == "~" else f" ({'/'.join(Path(filename).parts[-2:])}:{line})"
        print(f"  {own:8.4f} s  {calls:9d} calls  {name}{place}")


def profile_models(options: argparse.Namespace) -> None:
    """--profile: ortable alone, in this process."""
    quiet()
    for name in options.names:
        for dynamic in options.modes:
            _, _, ep = exported(name, options.small, dynamic, options.layers)
            print(f"\n{name}, {'free' if dynamic else 'fixed'} dimensions")
            ortable.to_onnx(ep, target_opset=options.opset, large_model=True)  # imports, caches
            profile(ep, options.opset, large=True, top=options.top)
            profile(ep, options.opset, large=False, top=options.top)
