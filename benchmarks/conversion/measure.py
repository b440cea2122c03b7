"""Measure the conversion of one model by both exporters, and their graphs in ONNX Runtime."""

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

ORTABLE, TORCH_ONNX = "ortable", "torch.onnx"
IN_TORCH, IN_PROTO = "weights left in torch", "one ModelProto"
Record = dict[str, Any]


def exported(
    name: str, small: bool, dynamic: bool, layers: int | None = None
) -> tuple[torch.nn.Module, Any, torch.export.ExportedProgram]:
    """Return module, call and ExportedProgram of an architecture; only bert has ``layers``."""
    architecture = ARCHITECTURES[name]
    if layers is None:
        module = build_architecture(name, small)
    else:
        module = bert(layers).requires_grad_(False)
    sizes = architecture.small if small else architecture.sizes
    if dynamic:  # torch.export makes a size of 1 a constant
        sizes = {name: max(size, 2) for name, size in sizes.items()}
    args, kwargs = call = architecture.call(small, **sizes)
    dims: Any = architecture.dynamic_shapes(small) if dynamic else None
    program = torch.export.export(module, args, kwargs, dynamic_shapes=dims, strict=False)
    return module, call, program


def run_round(
    ep: torch.export.ExportedProgram, opset: int, series: dict[str, list[float]], with_torch: bool
) -> Record:
    """Run each conversion once and append its seconds to ``series``.

    Each result is deleted before the next conversion. Returns the seconds of ortable's phases.
    """
    import ortable

    phases = {}
    for label in (IN_TORCH, IN_PROTO):
        seconds, (model, builder) = timed(
            lambda large=label == IN_TORCH: ortable.to_onnx(
                ep, target_opset=opset, large_model=large, return_builder=True
            )
        )
        series.setdefault(f"{ORTABLE}, {label}", []).append(seconds)
        phases[label] = dict(builder.record.seconds)
        del model, builder
        if with_torch and label == IN_TORCH:
            seconds, program = timed(lambda: torch_onnx(ep, opset))
            series.setdefault(f"{TORCH_ONNX}, {IN_TORCH}", []).append(seconds)
            # torch.onnx writes the weights when the property is read, so both times count.
            proto_seconds, proto = timed(lambda converted=program: converted.model_proto)
            series.setdefault(f"{TORCH_ONNX}, {IN_PROTO}", []).append(seconds + proto_seconds)
            del program, proto
    return phases


def measure(name: str, dynamic: bool, options: argparse.Namespace) -> Record:
    """Measure one model with static or dynamic dimensions."""
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
    """Record seconds, ratios and phases of the conversions."""
    with_torch = not options.no_torch
    try:
        run_round(ep, options.opset, {}, with_torch)  # warm-up: imports, caches
    except Exception as error:  # torch.onnx lacks operators of some models
        if not with_torch or "torch" not in type(error).__module__:
            raise
        record["errors"][TORCH_ONNX] = reason(error)
        with_torch = False
        run_round(ep, options.opset, {}, with_torch)
    series: dict[str, list[float]] = {}
    phases = [run_round(ep, options.opset, series, with_torch) for _ in range(options.rounds)]
    record["seconds"] = series
    record["median"] = {label: statistics.median(times) for label, times in series.items()}
    record["phases"] = {
        label: {
            phase: statistics.median(by_result[label].get(phase, 0.0) for by_result in phases)
            for phase in phases[0][label]
        }
        for label in (IN_TORCH, IN_PROTO)
    }
    if with_torch:
        record["ratio"] = {
            label: median_ratio(series, f"{TORCH_ONNX}, {label}", f"{ORTABLE}, {label}")
            for label in (IN_TORCH, IN_PROTO)
        }


def _measure_models(
    module: torch.nn.Module,
    call: Any,
    ep: torch.export.ExportedProgram,
    options: argparse.Namespace,
    record: Record,
) -> None:
    """Record nodes, peak memory, and latency of both models."""
    import ortable

    makers = {ORTABLE: lambda: ortable.to_onnx(ep, target_opset=options.opset)}
    if not options.no_torch and TORCH_ONNX not in record["errors"]:
        makers[TORCH_ONNX] = lambda: torch_onnx(ep, options.opset).model_proto
    models: dict[str, Any] = {}
    record["memory"], record["nodes"], record["operators"] = {}, {}, {}
    for label, maker in makers.items():
        before = reset_peak()
        models[label] = maker()
        if before is not None:
            record["memory"][label] = (peak() - before) / 1e6
        counts = collections.Counter(operators(models[label].graph))
        record["nodes"][label] = sum(counts.values())
        record["operators"][label] = dict(sorted(counts.items()))
    if not options.no_latency:
        _measure_latency(module, call, models, options, record)


def _measure_latency(
    module: torch.nn.Module,
    call: Any,
    models: dict[str, Any],
    options: argparse.Namespace,
    record: Record,
) -> None:
    """Record latency of both graphs and of eager in turns, the noise band, and errors."""
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
    for label in (*models, f"{ORTABLE}, again"):
        ort_session = session(models[label.partition(",")[0]], options.threads)
        feeds = dict(zip([x.name for x in ort_session.get_inputs()], values, strict=True))
        calls[label] = lambda ort_session=ort_session, feeds=feeds: ort_session.run(None, feeds)
        record["difference"][label] = max(map(difference, calls[label](), expected), default=0.0)
    seconds = time_interleaved(calls, options.latency_rounds)
    record["latency"] = {label: statistics.median(times) for label, times in seconds.items()}
    record["band"] = band(seconds, ORTABLE, f"{ORTABLE}, again")
    if TORCH_ONNX in seconds:
        record["latency_ratio"] = median_ratio(seconds, ORTABLE, TORCH_ONNX)


def reset_peak() -> int | None:
    """Reset the peak of resident memory, and return its current bytes (None except on Linux)."""
    gc.collect()
    try:
        ctypes.CDLL(None).malloc_trim(0)  # reuse of freed memory would not raise the peak
        Path("/proc/self/clear_refs").write_text("5")
    except (OSError, AttributeError):
        return None
    return _read_status("VmRSS")


def peak() -> int:
    """Return the peak of resident memory since reset_peak, in bytes."""
    return _read_status("VmHWM")


def _read_status(field: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    line = next(line for line in lines if line.startswith(f"{field}:"))
    return 1024 * int(line.split()[1])


def deep_bert(layers: int, dynamic: bool) -> torch.export.ExportedProgram:
    """Export a narrow BERT with this number of layers and small inputs."""
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
    """Measure microseconds of conversion per FX node of a narrow BERT with `layers` layers."""
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
