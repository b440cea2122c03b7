"""Measure one model with and without rewrites, next to torch.onnx: latency, nodes, rules, time."""

from __future__ import annotations

import argparse
import collections
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch

from benchmarks.conversion.measure import deep_bert
from benchmarks.measure import band, reason, timed
from benchmarks.models.inference import MODELS, build
from benchmarks.sessions import difference, operators, quiet, session, torch_onnx
from ortable.backend.timing import calls_per_block, time_interleaved

Record = dict[str, Any]
Call = Callable[[], Any]

TORCH_ONNX, WITHOUT, WITH = "torch.onnx", "without", "with"
AGAIN = ", again"
# The share of attention depends on the length of sequences and on the batch.
LONGER = ("bert@1x512", "gpt2@1x512", "llama@1x512", "bert@4x128", "gpt2@4x128")
BLOCK = 0.03  # seconds of consecutive calls of one candidate, at least one call
MIN_ROUNDS, RULE_SECONDS = 5, 6.0
SMALL_LENGTH = 32  # sequence length of small models


@dataclass(frozen=True)
class Size:
    """A model of the benchmark; a language model may have another batch and length."""

    name: str
    batch: int | None = None
    length: int | None = None

    def make(self, small: bool) -> tuple[torch.nn.Module, tuple[torch.Tensor, ...]]:
        """Return the model and its arguments, without gradients."""
        model, arguments = build(self.name, small=small, batch=self.batch)
        if self.batch is not None and self.length is not None:
            shape = (self.batch, min(self.length, SMALL_LENGTH) if small else self.length)
            ids = torch.randint(0, 100, shape)
            arguments = (ids, *(torch.ones_like(ids) for _ in arguments[1:]))
        return model.requires_grad_(False), arguments


def size_of(text: str) -> Size:
    """Parse ``bert`` or ``bert@4x128``.

    Raises:
        ValueError: the model is unknown, or it cannot have this size.
    """
    name, at, shape = text.partition("@")
    if name not in MODELS:
        raise ValueError(f"unknown model {name!r}; known: {', '.join(MODELS)}")
    if not at:
        return Size(name)
    batch, x, length = shape.partition("x")
    if not (x and batch.isdigit() and length.isdigit() and int(batch) * int(length)):
        raise ValueError(f"{text!r}: a size is BATCHxLENGTH, such as bert@4x128")
    if name not in {longer.partition("@")[0] for longer in LONGER}:
        raise ValueError(f"{text!r}: only language models take a size")
    return Size(name, int(batch), int(length))


def rounds_for(calls: Sequence[float], count: int, budget: float, most: int) -> int:
    """Return the number of rounds of `interleave` that fit into `budget` seconds.

    `calls` has the seconds of one call of each candidate, and a round has `count` calls of each.
    The result is a multiple of the number of candidates, so that each is first equally often.
    """
    candidates = len(calls)
    round_seconds = sum(0.03 + (1 + count) * seconds for seconds in calls)
    minimum = candidates * -(-MIN_ROUNDS // candidates)
    return max(minimum, min(int(budget / round_seconds), most) // candidates * candidates)


def measure(job: str, options: argparse.Namespace) -> Record:
    """Measure nodes, rules, conversion and latency of one model, or the effect of single rules."""
    quiet()
    started = time.perf_counter()
    torch.set_num_threads(options.threads)
    model, arguments = size_of(job).make(options.small)
    with torch.no_grad():
        ep = torch.export.export(model, arguments, strict=False)
    weights = {id(t): t.numel() * t.element_size() for t in model.state_dict().values()}
    record: Record = {
        "name": job,
        "shape": list(arguments[0].shape),
        "megabytes": sum(weights.values()) / 1e6,
        "fx_nodes": len(ep.graph.nodes),
        "errors": {},
    }
    subject = Subject(model, arguments, ep, options)
    if options.rules:
        record["ablation"] = measure_rules(subject)
    else:
        record["conversion"] = measure_conversion(ep, options)
        record.update(measure_graphs(subject, record["errors"]))
    record["wall"] = time.perf_counter() - started
    return record


@dataclass
class Subject:
    """A model, the arguments of its call, and its ExportedProgram."""

    model: torch.nn.Module
    arguments: tuple[torch.Tensor, ...]
    ep: torch.export.ExportedProgram
    options: argparse.Namespace

    def export(self, names: Sequence[str]) -> tuple[Any, Any]:
        """Return the ONNX model with these rewrites, and its RewriteRecord."""
        proto, builder = export(self.ep, names, self.options)
        return proto, builder.record.rewrites

    def make_call(self, proto: Any) -> Call:
        """Make a session, and return its call on numpy arrays that are prepared here."""
        ort_session = session(proto, self.options.threads)
        names = [value.name for value in ort_session.get_inputs()]
        values = [value.numpy() for value in self.arguments]
        feeds = dict(zip(names, values, strict=True))
        return lambda: ort_session.run(None, feeds)

    def expected(self) -> list[torch.Tensor]:
        """Return the tensors that eager returns."""
        with torch.no_grad():
            leaves = torch.utils._pytree.tree_leaves(self.model(*self.arguments))
        return [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]

    def error(self, call: Call, expected: Sequence[torch.Tensor]) -> float:
        """Return the largest relative error of a result against eager."""
        pairs = zip(call(), expected, strict=True)
        return max((difference(value, eager) for value, eager in pairs), default=0.0)

    def interleave(self, calls: Mapping[str, Call], budget: float) -> dict[str, list[float]]:
        """Return seconds per call by candidate and round, for as many rounds as fit.

        All candidates have the same number of consecutive calls, because a single call after a
        pause takes longer than one of many.
        """
        call_seconds = {name: min(timed(call)[0] for _ in range(2)) for name, call in calls.items()}
        median_seconds = statistics.median(call_seconds.values())
        count = calls_per_block(median_seconds, BLOCK)
        rounds = rounds_for(list(call_seconds.values()), count, budget, self.options.repeat)
        return time_interleaved(calls, rounds, BLOCK, dict.fromkeys(calls, median_seconds))


def export(
    ep: torch.export.ExportedProgram,
    names: Sequence[str],
    options: argparse.Namespace,
    large: bool = False,
) -> tuple[Any, Any]:
    """Return the ONNX model for ONNX Runtime, and the builder."""
    import ortable

    return ortable.to_onnx(
        ep,
        target="onnxruntime",
        target_opset=options.opset,
        rewrites=list(names),
        large_model=large,
        return_builder=True,
    )


def measure_conversion(ep: torch.export.ExportedProgram, options: argparse.Namespace) -> Record:
    """Measure seconds by phase without and with rewrites, with weights left in torch.

    The figures are medians after a warm-up round. ``rules`` is the time in the rewrite engine,
    ``share`` its share of convert, rewrite and serialise; ``rewrite`` includes all passes.
    """
    rounds_by_label: dict[str, list[Record]] = {WITHOUT: [], WITH: []}
    for number in range(options.rounds + 1):
        for label, names in ((WITHOUT, ["none"]), (WITH, options.set)):
            total, (_, builder) = timed(partial(export, ep, names, options, large=True))
            phases = {**builder.record.seconds, "rules": builder.record.rewrites.seconds}
            work = sum(phases.get(phase, 0.0) for phase in ("convert", "rewrite", "serialise"))
            if number:
                rounds_by_label[label].append(
                    {**phases, "total": total, "share": phases["rules"] / work}
                )
    return {
        label: {
            phase: statistics.median(times[phase] for times in rounds if phase in times)
            for phase in rounds[0]
        }
        for label, rounds in rounds_by_label.items()
    }


def measure_graphs(subject: Subject, errors: dict[str, str]) -> Record:
    """Measure nodes, operators, opsets, rules and (by default) latency of the three graphs."""
    options = subject.options
    protos: dict[str, Any] = {}
    if not options.no_torch:
        try:
            protos[TORCH_ONNX] = torch_onnx(subject.ep).model_proto
        except Exception as error:  # torch.onnx lacks operators of some models
            errors[TORCH_ONNX] = reason(error)
    protos[WITHOUT], _ = subject.export(["none"])
    protos[WITH], rewrites = subject.export(options.set)
    record: Record = {"nodes": {}, "operators": {}, "opset": {}, "functions": {}, "kernels": {}}
    for label, proto in protos.items():
        counts = collections.Counter(operators(proto.graph))
        record["nodes"][label] = sum(counts.values())
        record["operators"][label] = dict(counts.most_common())
        record["functions"][label] = len(proto.functions)
        record["kernels"][label] = count_kernels(proto)
        record["opset"][label] = next(x.version for x in proto.opset_import if not x.domain)
    record["rules"] = rewrites.counts()
    record["tried"] = {
        name: {"tried": rule.tried, "seconds": rule.seconds, "refused": dict(rule.refused)}
        for name, rule in sorted(rewrites.statistics.items())
    }
    if not options.no_latency:
        record.update(measure_latency(subject, protos))
    return record


def count_kernels(proto: Any) -> int:
    """Count the nodes of the graph after ONNX Runtime's optimizer."""
    import onnx
    import onnxruntime

    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "optimized.onnx")
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        options.optimized_model_filepath = path
        weights = "session.optimized_model_external_initializers"
        options.add_session_config_entry(f"{weights}_file_name", "weights")
        options.add_session_config_entry(f"{weights}_min_size_in_bytes", "1024")
        ort_session = onnxruntime.InferenceSession(
            proto.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
        del ort_session
        return len(operators(onnx.load(path, load_external_data=False).graph))


def measure_latency(subject: Subject, protos: dict[str, Any]) -> Record:
    """Measure the seconds of a call of each session, in turns, and the error against eager.

    torch.onnx's graph has the first and the last session, and the graph with rewrites two between:
    the noise bands include any effect of the order of creation.
    """
    expected = subject.expected()
    order = (TORCH_ONNX, WITHOUT, WITH, WITH + AGAIN, TORCH_ONNX + AGAIN)
    calls: dict[str, Call] = {}
    errors: dict[str, float] = {}
    for label in order:
        proto = protos.get(label.removesuffix(AGAIN))
        if proto is not None:
            calls[label] = subject.make_call(proto)
            errors[label] = subject.error(calls[label], expected)
        del proto
    protos.clear()
    series = subject.interleave(calls, subject.options.seconds)
    return {"difference": errors, **figures(series)}


def figures(series: Mapping[str, Sequence[float]]) -> Record:
    """Compute medians, noise bands and ratios of series of seconds.

    A ratio compares the means of the sessions of two graphs within a round; its spread is half the
    interquartile range over the rounds. A band compares two sessions of one graph.
    """
    record: Record = {
        "rounds": len(next(iter(series.values()))),
        "latency": {label: statistics.median(times) for label, times in series.items()},
        "band": {
            label: band(series, label, label + AGAIN) for label in series if label + AGAIN in series
        },
        "ratio": {},
        "spread": {},
    }
    means: dict[str, list[float]] = {}
    for label in (TORCH_ONNX, WITHOUT, WITH):
        session_times = [series[name] for name in (label, label + AGAIN) if name in series]
        if session_times:
            means[label] = [statistics.fmean(times) for times in zip(*session_times, strict=True)]
    for label, base in ((WITHOUT, TORCH_ONNX), (WITH, TORCH_ONNX), (WITH, WITHOUT)):
        if label in means and base in means:
            name = f"{label} / {base}"
            ratios = sorted(a / b for a, b in zip(means[label], means[base], strict=True))
            quarter = len(ratios) // 4
            record["ratio"][name] = statistics.median(ratios)
            record["spread"][name] = (ratios[-1 - quarter] - ratios[quarter]) / 2
    return record


def measure_rules(subject: Subject) -> dict[str, Record]:
    """Measure the effect of single rules on the latency; a ratio above 1 means a rule helps.

    The graph with `options.set` has two sessions. The other graph lacks the rule, or adds it where
    the rule is off by default.
    """
    options = subject.options
    base, rewrites = subject.export(options.set)
    fired = rewrites.counts()
    rules = list(fired) if options.rules == ["all"] else options.rules
    expected = subject.expected()
    calls = {WITH: subject.make_call(base), WITH + AGAIN: subject.make_call(base)}
    nodes = len(operators(base.graph))
    del base
    records: dict[str, Record] = {}
    for rule in rules:
        is_added = rule not in fired
        names = [*options.set, rule if is_added else f"-{rule}"]
        proto, other_rewrites = subject.export(names)
        count = other_rewrites.counts().get(rule, 0) if is_added else fired[rule]
        if not count:
            continue  # the rule does not fire in this model
        call = subject.make_call(proto)
        node_difference = len(operators(proto.graph)) - nodes
        del proto
        error = subject.error(call, expected)
        series = subject.interleave({WITHOUT: call, **calls}, min(RULE_SECONDS, options.seconds))
        record = figures(series)
        ratio = record["ratio"][f"{WITH} / {WITHOUT}"]
        records[rule] = {
            "fired": count,
            "added": is_added,
            "nodes_saved": -node_difference if is_added else node_difference,
            "ratio": ratio if is_added else 1 / ratio,
            "band": record["band"][WITH],
            "spread": record["spread"][f"{WITH} / {WITHOUT}"],
            "rounds": record["rounds"],
            "difference": error,
        }
    return records


def measure_depth(layers: int, dynamic: bool, options: argparse.Namespace) -> Record:
    """Measure conversion and rewriting of a narrow BERT with `layers` layers."""
    quiet()
    torch.set_num_threads(options.threads)
    ep = deep_bert(layers, dynamic)
    record: Record = {
        "layers": layers,
        "dynamic": dynamic,
        "fx_nodes": len(ep.graph.nodes),
        "conversion": measure_conversion(ep, options),
        "nodes": {},
    }
    for label, names in ((WITHOUT, ["none"]), (WITH, options.set)):
        proto, builder = export(ep, names, options)
        record["nodes"][label] = len(operators(proto.graph))
    record["rules"] = builder.record.rewrites.counts()
    return record
