"""Profile conversions by ortable (``--profile``): own time by component, and slowest functions."""

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

# Labels of libraries by a part of the path of a function; the first match counts.
LIBRARY_LABELS = (
    ("google/protobuf", "protobuf"),
    ("/onnx/", "onnx"),
    ("numpy/", "numpy"),
    ("/sympy/", "sympy"),
    ("/torch/", "torch"),
)
OWN_FOLDERS = tuple(Path(package.__path__[0]) for package in (ortable, ortable_generated))


def get_component(filename: str) -> str:
    """Return the package of the converter, or the library, that a file belongs to."""
    if filename == "~":
        return "C functions (built-ins, protobuf, torch)"
    for package in OWN_FOLDERS:
        if Path(filename).is_relative_to(package):
            inner = Path(filename).relative_to(package).with_suffix("").parts[0]
            return f"{package.name}.{inner.partition('_')[0] or inner}"
    path = filename.replace("\\", "/")
    return next((label for part, label in LIBRARY_LABELS if part in path), "Python's library")


def profile(ep: Any, opset: int, large: bool, top: int) -> None:
    """Profile one conversion: print own time by component, then the slowest functions.

    cProfile adds time to every Python call, so small functions look slower than they are.
    """
    gc.collect()
    profiler = cProfile.Profile()
    profiler.runcall(ortable.to_onnx, ep, target_opset=opset, large_model=large)
    stats = pstats.Stats(profiler)
    rows = [(*key, *value[:4]) for key, value in stats.stats.items()]  # type: ignore[attr-defined]
    total = sum(row[5] for row in rows)
    components: dict[str, tuple[int, float]] = {}
    for filename, _line, _name, _primitive, calls, own, _cumulative in rows:
        count, seconds = components.get(get_component(filename), (0, 0.0))
        components[get_component(filename)] = count + calls, seconds + own
    title = "weights left in torch" if large else "one ModelProto"
    print(f"\nprofile, {title}: {total:.3f} s under cProfile")
    for label, (count, seconds) in sorted(components.items(), key=lambda item: -item[1][1]):
        print(f"  {seconds:8.4f} s  {100 * seconds / total:5.1f} %  {count:9d} calls  {label}")
    print("  own time, function")
    for filename, line, name, _, calls, own, _ in sorted(rows, key=lambda row: -row[5])[:top]:
        location = "" if filename == "~" else f" ({'/'.join(Path(filename).parts[-2:])}:{line})"
        print(f"  {own:8.4f} s  {calls:9d} calls  {name}{location}")


def profile_models(options: argparse.Namespace) -> None:
    """Profile the selected models in this process, without torch.onnx."""
    quiet()
    for name in options.names:
        for dynamic in options.modes:
            _, _, ep = exported(name, options.small, dynamic, options.layers)
            print(f"\n{name}, {'free' if dynamic else 'fixed'} dimensions")
            ortable.to_onnx(ep, target_opset=options.opset, large_model=True)  # imports, caches
            profile(ep, options.opset, large=True, top=options.top)
            profile(ep, options.opset, large=False, top=options.top)
