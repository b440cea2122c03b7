"""What benchmarks.conversion measures of one model, in a process of its own: seconds of both
exporters, phases, nodes, memory, and the latency of both graphs in ONNX Runtime."""

from __future__ import annotations

import argparse
import collections
import ctypes
import gc
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from benchmarks.measure import band, reason, timed
from benchmarks.models.architectures import ARCHITECTURES, build_architecture
from benchmarks.models.bert import bert, narrow_bert
from benchmarks.sessions import difference, operators, quiet, session, torch_onnx
from ortable.backend.timing import median_ratio, time_interleaved

OURS, THEIRS = "ortable", "torch.onnx"
LARGE, WHOLE = "weights left in torch", "one ModelProto"
Record = dict[str, Any]


def exported(
    name: str, small: bool, dynamic: bool, layers: int | None = None
) -> tuple[torch.nn.Module, Any, torch.export.ExportedProgram]:
    """Module, call and ExportedProgram of an architecture; ``layers`` is read by bert alone."""
    architecture = ARCHITECTURES[name]
    if layers is None:
        module = build_architecture(name, small)
    else:
        module = bert(layers).requires_grad_(False)
    sizes = architecture.small if small else architecture.sizes
    if dynamic:  # torch.export takes a size of 1 for a constant
        sizes = {name: max(size, 2) for name, size in sizes.items()}
    args, kwargs = call = architecture.call(small, **sizes)
    dims: Any = architecture.dynamic_shapes(small) if dynamic else None
    program = torch.export.export(module, args, kwargs, dynamic_shapes=dims, strict=False)
    return module, call, program


def one_round(
    ep: torch.export.ExportedProgram, opset: int, found: dict[str, list[float]], theirs: bool
) -> Record:
    """Each conversion once, results dropped before the next one starts; the seconds go to
    ``found``. Returns the seconds of ortable's phases, by result."""
    import ortable

    phases = {}
    for label in (LARGE, WHOLE):
        seconds, (model, builder) = timed(
            lambda large=label == LARGE: ortable.to_onnx(
                ep, target_opset=opset, large_model=large, return_builder=True
            )
        )
        found.setdefault(f"{OURS}, {label}", []).append(seconds)
        phases[label] = dict(builder.record.seconds)
        del model, builder
        if theirs and label == LARGE:
            seconds, program = timed(lambda: torch_onnx(ep, opset))
            found.setdefault(f"{THEIRS}, {LARGE}", []).append(seconds)
            # Their weights enter the protobuf when the property is read: both parts count.
            more, proto = timed(lambda made=program: made.model_proto)
            found.setdefault(f"{THEIRS}, {WHOLE}", []).append(seconds + more)
            del program, proto
    return phases


def measure(name: str, dynamic: bool, options: argparse.Namespace) -> Record:
    """One model with fixed or free dimensions."""
    quiet()
    torch.set_num_threads(options.threads)
    seconds, (module, call, ep) = timed(
        lambda: exported(name, options.small, dynamic, options.layers)
    )
    weights = {id(t): t.numel() * t.element_size() for t in module.state_dict().values()}
    record: Record = {
        "name": name if options.layers is None else f"{name}, {options.layers} layers",
        "dynamic": dynamic,
        "fx_nodes": len(ep.graph.nodes),
        "megabytes": sum(weights.values()) / 1e6,
        "export": seconds,
        "errors": {},
    }
    _measure_conversions(ep, options, record)
    _measure_models(module, call, ep, options, record)
    return record


def _measure_conversions(
    ep: torch.export.ExportedProgram, options: argparse.Namespace, record: Record
) -> None:
    """Seconds, ratios and phases."""
    theirs = not options.no_torch
    try:
        one_round(ep, options.opset, {}, theirs)  # warm-up: imports, caches
    except Exception as error:  # torch.onnx lacks operators of some models
        if not theirs or "torch" not in type(error).__module__:
            raise
        record["errors"][THEIRS] = reason(error)
        theirs = False
        one_round(ep, options.opset, {}, theirs)
    found: dict[str, list[float]] = {}
    phases = [one_round(ep, options.opset, found, theirs) for _ in range(options.rounds)]
    record["seconds"] = found
    record["median"] = {label: statistics.median(times) for label, times in found.items()}
    record["phases"] = {
        label: {
            phase: statistics.median(each[label].get(phase, 0.0) for each in phases)
            for phase in phases[0][label]
        }
        for label in (LARGE, WHOLE)
    }
    if theirs:
        record["ratio"] = {
            label: median_ratio(found, f"{THEIRS}, {label}", f"{OURS}, {label}")
            for label in (LARGE, WHOLE)
        }


def _measure_models(
    module: torch.nn.Module,
    call: Any,
    ep: torch.export.ExportedProgram,
    options: argparse.Namespace,
    record: Record,
) -> None:
    """Nodes, peak memory, and latency of both models."""
    import ortable

    makers = {OURS: lambda: ortable.to_onnx(ep, target_opset=options.opset)}
    if not options.no_torch and THEIRS not in record["errors"]:
        makers[THEIRS] = lambda: torch_onnx(ep, options.opset).model_proto
    models: dict[str, Any] = {}
    record["memory"], record["nodes"], record["operators"] = {}, {}, {}
    for label, maker in makers.items():
        before = reset_peak()
        models[label] = maker()
        if before is not None:
            record["memory"][label] = (peak() - before) / 1e6
        found = collections.Counter(operators(models[label].graph))
        record["nodes"][label] = sum(found.values())
        record["operators"][label] = dict(sorted(found.items()))
    if not options.no_latency:
        _measure_latency(module, call, models, options, record)


def _measure_latency(
    module: torch.nn.Module,
    call: Any,
    models: dict[str, Any],
    options: argparse.Namespace,
    record: Record,
) -> None:
    """Milliseconds of both sessions and of eager, in turns, and the difference from eager. A second
    session of ortable's model gives the band in which nothing can be told."""
    args, kwargs = call
    leaves = torch.utils._pytree.tree_leaves(call)
    values = [leaf.numpy() for leaf in leaves if isinstance(leaf, torch.Tensor)]

    def eager() -> Any:
        with torch.no_grad():
            return module(*args, **kwargs)

    returned = torch.utils._pytree.tree_leaves(eager())
    expected = [leaf for leaf in returned if isinstance(leaf, torch.Tensor)]
    calls: dict[str, Callable[[], Any]] = {"eager": eager}
    record["difference"] = {}
    for label in (*models, f"{OURS}, again"):
        made = session(models[label.partition(",")[0]], options.threads)
        feeds = dict(zip([x.name for x in made.get_inputs()], values, strict=True))
        calls[label] = lambda made=made, feeds=feeds: made.run(None, feeds)
        record["difference"][label] = max(map(difference, calls[label](), expected), default=0.0)
    found = time_interleaved(calls, options.latency_rounds)
    record["latency"] = {label: statistics.median(times) for label, times in found.items()}
    record["band"] = band(found, OURS, f"{OURS}, again")
    if THEIRS in found:
        record["latency_ratio"] = median_ratio(found, OURS, THEIRS)


def reset_peak() -> int | None:
    """Bytes of resident memory now; the peak is counted from here on. None where the system cannot
    say (not Linux)."""
    gc.collect()
    try:
        ctypes.CDLL(None).malloc_trim(0)  # freed memory would be used again unseen
        Path("/proc/self/clear_refs").write_text("5")
    except (OSError, AttributeError):
        return None
    return _status("VmRSS")


def peak() -> int:
    """Bytes of the largest resident memory since reset_peak."""
    return _status("VmHWM")


def _status(field: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    line = next(line for line in lines if line.startswith(f"{field}:"))
    return 1024 * int(line.split()[1])


def deep_bert(layers: int, dynamic: bool) -> torch.export.ExportedProgram:
    """The program of a narrow BERT of that many layers, small inputs."""
    architecture = ARCHITECTURES["bert"]
    args, kwargs = architecture.call(small=True)
    return torch.export.export(
        narrow_bert(layers),
        args,
        kwargs,
        dynamic_shapes=architecture.dynamic_shapes() if dynamic else None,
        strict=False,
    )


def measure_depth(layers: int, dynamic: bool, options: argparse.Namespace) -> Record:
    """Microseconds of ortable for each FX node of a BERT of that many narrow layers, weights left
    in torch."""
    import ortable

    quiet()
    torch.set_num_threads(options.threads)
    ep = deep_bert(layers, dynamic)

    def convert() -> Any:
        return ortable.to_onnx(ep, target_opset=options.opset, large_model=True)

    convert()
    times = [timed(convert)[0] for _ in range(options.rounds)]
    count = len(ep.graph.nodes)
    return {
        "layers": layers,
        "dynamic": dynamic,
        "fx_nodes": count,
        "seconds": statistics.median(times),
        "microseconds_per_node": 1e6 * statistics.median(times) / count,
    }
