"""Seconds from an ExportedProgram to ONNX: ortable next to torch.onnx, interleaved in one process.

Two results each: the graph with its weights left in torch (``large_model=True`` against the
``ONNXProgram``), and one ModelProto that holds every weight. See benchmarks/README.md.
"""

from __future__ import annotations

import argparse
import contextlib
import cProfile
import gc
import io
import logging
import platform
import pstats
import statistics
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import torch

ROOT = Path(__file__).resolve().parent.parent
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))  # the models stand in tests/models

import ortable  # noqa: E402
from tests.models.bert import bert, bert_inputs  # noqa: E402
from tests.models.densenet import densenet121  # noqa: E402
from tests.models.mlp import MLP  # noqa: E402

# Where time goes, by the path of the function: the first part that matches names the phase.
PHASES = (
    ("ortable/interpreter/", "walk the FX graph"),
    ("ortable/export/", "export: inputs, outputs, options"),
    ("ortable/builder/serialize", "write the protobuf"),
    ("ortable/builder/", "builder: nodes, names, passes"),
    ("ortable/rewrite/", "rewrites"),
    ("ortable_generated/onnx/", "ONNX shape and type rules"),
    ("ortable_generated/aten/", "converters"),
    ("ortable/lowerings/", "converters"),
    ("ortable/prelude", "converters"),
    ("ortable/promotion", "converters"),
    ("ortable/dims", "symbolic dimensions"),
    ("ortable/rules", "ONNX shape and type rules"),
    ("ortable/", "ortable, the rest"),
    ("google/protobuf", "write the protobuf"),
    ("/onnx/", "onnx"),
    ("numpy/", "numpy"),
    ("/sympy/", "sympy"),
    ("/torch/", "torch"),
)


@dataclass
class Timings:
    """Seconds of each round, one list per column of the report."""

    ours_large: list[float] = field(default_factory=list)
    ours_embedded: list[float] = field(default_factory=list)
    theirs_large: list[float] = field(default_factory=list)
    theirs_embedded: list[float] = field(default_factory=list)


def build(name: str, layers: int) -> tuple[torch.nn.Module, tuple, dict]:
    """The model in eval mode, and example arguments. ``layers`` is read by bert alone."""
    torch.manual_seed(0)
    if name == "bert":
        return bert(layers), (), bert_inputs(2, 128)
    if name == "densenet":
        return densenet121().eval(), (torch.randn(1, 3, 128, 128),), {}
    return MLP().eval(), (torch.randn(3, 10),), {}


def dynamic_dims(name: str) -> dict | tuple:
    """Batch, and length for bert, as free dimensions."""
    batch = torch.export.Dim("batch", max=1024)
    if name == "bert":
        both = {0: batch, 1: torch.export.Dim("length", min=2, max=512)}
        return {"input_ids": both, "attention_mask": both}
    return ({0: batch},)


def timed(function: Callable[[], object]) -> tuple[float, object]:
    """Seconds of one call, garbage collected before; and what it returned."""
    gc.collect()
    started = time.perf_counter()
    result = function()
    return time.perf_counter() - started, result


def torch_onnx(ep: torch.export.ExportedProgram, opset: int) -> torch.onnx.ONNXProgram:
    """``torch.onnx.export(ep, dynamo=True)`` without its progress lines."""
    with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = torch.onnx.export(ep, dynamo=True, opset_version=opset, verbose=False)
    assert program is not None
    return program


def one_round(
    ep: torch.export.ExportedProgram, opset: int, timings: Timings, with_torch: bool
) -> None:
    """Each conversion once; results are dropped before the next one starts."""
    seconds, result = timed(lambda: ortable.to_onnx(ep, target_opset=opset, large_model=True))
    timings.ours_large.append(seconds)
    del result
    if with_torch:
        seconds, program = timed(lambda: torch_onnx(ep, opset))
        timings.theirs_large.append(seconds)
        # Their weights enter the protobuf when the property is read: both parts count.
        more, proto = timed(lambda: program.model_proto)  # type: ignore[attr-defined]
        timings.theirs_embedded.append(seconds + more)
        del program, proto
    seconds, result = timed(lambda: ortable.to_onnx(ep, target_opset=opset))
    timings.ours_embedded.append(seconds)
    del result


def spread(values: list[float]) -> str:
    """Median, and the range in brackets."""
    return f"{statistics.median(values):8.3f}  [{min(values):.3f} .. {max(values):.3f}]"


def report(timings: Timings) -> None:
    """The table, with the ratio of the medians."""
    pairs = (
        ("weights left in torch", timings.ours_large, timings.theirs_large),
        ("weights in the proto", timings.ours_embedded, timings.theirs_embedded),
    )
    print(f"\n{'':24}{'':11}{'seconds, median [min .. max]'}")
    for label, ours, theirs in pairs:
        print(f"{label:24}{'ortable':11}{spread(ours)}")
        if theirs:
            ratio = statistics.median(theirs) / statistics.median(ours)
            print(f"{'':24}{'torch.onnx':11}{spread(theirs)}   {ratio:6.1f} times ortable's")


def phase(filename: str) -> str:
    """The phase of :data:`PHASES` that a function's file belongs to."""
    path = filename.replace("\\", "/")
    if path == "~":
        return "C functions (built-ins, protobuf, torch)"
    return next((label for part, label in PHASES if part in path), "Python's library")


def profile(ep: torch.export.ExportedProgram, opset: int, large: bool, top: int) -> None:
    """One conversion under cProfile: own time by phase, then the functions that cost most.

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
    title = "weights left in torch" if large else "weights in the proto"
    print(f"\nprofile, {title}: {total:.3f} s under cProfile")
    for label, (count, seconds) in sorted(phases.items(), key=lambda item: -item[1][1]):
        print(f"  {seconds:8.4f} s  {100 * seconds / total:5.1f} %  {count:9d} calls  {label}")
    print("  own time, function")
    for filename, line, name, _, calls, own, _ in sorted(rows, key=lambda row: -row[5])[:top]:
        place = "" if filename == "~" else f" ({'/'.join(Path(filename).parts[-2:])}:{line})"
        print(f"  {own:8.4f} s  {calls:9d} calls  {name}{place}")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", choices=("bert", "mlp", "densenet"), default="bert")
    parser.add_argument("--layers", type=int, default=12, help="layers of bert (12 is base)")
    parser.add_argument("--opset", type=int, default=18)
    parser.add_argument("--rounds", type=int, default=5, help="measured rounds, after a warm-up")
    parser.add_argument("--dynamic", action="store_true", help="free batch and length")
    parser.add_argument("--no-torch", action="store_true", help="measure ortable alone")
    parser.add_argument("--profile", action="store_true", help="time per phase, ortable alone")
    parser.add_argument("--top", type=int, default=12, help="functions that --profile lists")
    options = parser.parse_args()
    if options.rounds < 1 or options.layers < 1:
        parser.error("--rounds and --layers are at least 1")
    return options


def main() -> None:
    options = arguments()
    for name in ("torch.onnx", "onnxscript"):
        logging.getLogger(name).setLevel(logging.ERROR)
    module, args, kwargs = build(options.model, options.layers)
    dims = dynamic_dims(options.model) if options.dynamic else None
    seconds, ep = timed(
        lambda: torch.export.export(module, args, kwargs, dynamic_shapes=dims, strict=False)
    )
    assert isinstance(ep, torch.export.ExportedProgram)
    megabytes = sum(p.numel() * p.element_size() for p in module.parameters()) / 1e6
    print(
        f"{options.model}{f', {options.layers} layers' if options.model == 'bert' else ''}, "
        f"{'dynamic' if options.dynamic else 'static'} shapes, opset {options.opset}: "
        f"{len(ep.graph.nodes)} FX nodes, {megabytes:.0f} MB of parameters; "
        f"torch.export took {seconds:.2f} s\n"
        f"torch {torch.__version__}, {torch.get_num_threads()} threads, "
        f"Python {platform.python_version()}"
    )
    if options.profile:
        ortable.to_onnx(ep, target_opset=options.opset, large_model=True)  # imports, caches
        profile(ep, options.opset, large=True, top=options.top)
        profile(ep, options.opset, large=False, top=options.top)
        return
    one_round(ep, options.opset, Timings(), not options.no_torch)  # warm-up: imports, caches
    timings = Timings()
    for _ in range(options.rounds):
        one_round(ep, options.opset, timings, not options.no_torch)
    print(f"{options.rounds} rounds, interleaved, after one that is not counted")
    report(timings)


if __name__ == "__main__":
    main()
