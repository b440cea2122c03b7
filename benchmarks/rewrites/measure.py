"""What benchmarks.rewrites measures of one model, in a process of its own: latency of its graph
with and without rewrites next to torch.onnx's, nodes, which rules fired, and seconds."""

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

THEIRS, WITHOUT, WITH = "torch.onnx", "without", "with"
AGAIN = ", again"
# Attention and the rest of a language model weigh differently in longer sequences and batches.
LONGER = ("bert@1x512", "gpt2@1x512", "llama@1x512", "bert@4x128", "gpt2@4x128")
BLOCK = 0.03  # seconds that the calls of one candidate in a row last, at least one call
LEAST_ROUNDS, RULE_SECONDS = 5, 6.0
SHORT = 32  # the length of a sequence with small models


@dataclass(frozen=True)
class Size:
    """A model of the set, at its usual size or, for a language model, at another one."""

    name: str
    batch: int | None = None
    length: int | None = None

    def make(self, small: bool) -> tuple[torch.nn.Module, tuple[torch.Tensor, ...]]:
        """The model and arguments for it, without gradients."""
        model, arguments = build(self.name, small=small, batch=self.batch)
        if self.batch is not None and self.length is not None:
            shape = (self.batch, min(self.length, SHORT) if small else self.length)
            ids = torch.randint(0, 100, shape)
            arguments = (ids, *(torch.ones_like(ids) for _ in arguments[1:]))
        return model.requires_grad_(False), arguments


def size_of(text: str) -> Size:
    """What ``bert`` or ``bert@4x128`` names.

    :raises ValueError: no such model, no such size, or a size of a model that has none
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
    """How many rounds of `interleave` fit into a budget, when one call takes these seconds and each
    candidate has `count` in a row.

    Every candidate begins equally often, so it is a multiple of their number; never none.
    """
    candidates = len(calls)
    one = sum(0.03 + (1 + count) * seconds for seconds in calls)
    least = candidates * -(-LEAST_ROUNDS // candidates)
    return max(least, min(int(budget / one), most) // candidates * candidates)


def measure(job: str, options: argparse.Namespace) -> Record:
    """One model: nodes, rules and seconds, then latency; or what single rules do to it."""
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
        record["conversion"] = conversion(ep, options)
        record.update(measure_graphs(subject, record["errors"]))
    record["wall"] = time.perf_counter() - started
    return record


@dataclass
class Subject:
    """A model, the call it is measured with, and its ExportedProgram."""

    model: torch.nn.Module
    arguments: tuple[torch.Tensor, ...]
    ep: torch.export.ExportedProgram
    options: argparse.Namespace

    def ours(self, names: Sequence[str]) -> tuple[Any, Any]:
        """ONNX model and RewriteRecord with these rewrites."""
        proto, builder = ours(self.ep, names, self.options)
        return proto, builder.record.rewrites

    def run(self, proto: Any) -> Call:
        """A call of a session of its own, on numpy arrays that are there already."""
        made = session(proto, self.options.threads)
        names = [value.name for value in made.get_inputs()]
        values = [value.numpy() for value in self.arguments]
        feeds = dict(zip(names, values, strict=True))
        return lambda: made.run(None, feeds)

    def expected(self) -> list[torch.Tensor]:
        """What eager returns."""
        with torch.no_grad():
            found = torch.utils._pytree.tree_leaves(self.model(*self.arguments))
        return [leaf for leaf in found if isinstance(leaf, torch.Tensor)]

    def error(self, call: Call, expected: Sequence[torch.Tensor]) -> float:
        """Largest difference of any result from eager, relative to its largest value."""
        pairs = zip(call(), expected, strict=True)
        return max((difference(value, wanted) for value, wanted in pairs), default=0.0)

    def interleave(self, calls: Mapping[str, Call], budget: float) -> dict[str, list[float]]:
        """Seconds per call and round, as many rounds as fit.

        All candidates have equally many calls in a row: a single call after a pause does not take
        what one of many takes.
        """
        once = {name: min(timed(call)[0] for _ in range(2)) for name, call in calls.items()}
        usual = statistics.median(once.values())
        count = calls_per_block(usual, BLOCK)
        rounds = rounds_for(list(once.values()), count, budget, self.options.repeat)
        return time_interleaved(calls, rounds, BLOCK, dict.fromkeys(calls, usual))


def ours(
    ep: torch.export.ExportedProgram,
    names: Sequence[str],
    options: argparse.Namespace,
    large: bool = False,
) -> tuple[Any, Any]:
    """ONNX model for ONNX Runtime, and the builder."""
    import ortable

    return ortable.to_onnx(
        ep,
        target="onnxruntime",
        target_opset=options.opset,
        rewrites=list(names),
        large_model=large,
        return_builder=True,
    )


def conversion(ep: torch.export.ExportedProgram, options: argparse.Namespace) -> Record:
    """Seconds by phase without and with rewrites, weights left in torch; medians of rounds after
    one that warms imports and caches.

    ``rules`` is the time in the engine, ``share`` its part of convert, rewrite and serialise; the
    phase ``rewrite`` also has the passes that always run.
    """
    found: dict[str, list[Record]] = {WITHOUT: [], WITH: []}
    for number in range(options.rounds + 1):
        for label, names in ((WITHOUT, ["none"]), (WITH, options.set)):
            seconds, (_, builder) = timed(partial(ours, ep, names, options, large=True))
            took = {**builder.record.seconds, "rules": builder.record.rewrites.seconds}
            own = sum(took.get(phase, 0.0) for phase in ("convert", "rewrite", "serialise"))
            if number:
                found[label].append({**took, "total": seconds, "share": took["rules"] / own})
    return {
        label: {
            phase: statistics.median(each[phase] for each in rounds if phase in each)
            for phase in rounds[0]
        }
        for label, rounds in found.items()
    }


def measure_graphs(subject: Subject, errors: dict[str, str]) -> Record:
    """Nodes, operators, opsets and rules of the three graphs; latency unless it is left out."""
    options = subject.options
    protos: dict[str, Any] = {}
    if not options.no_torch:
        try:
            protos[THEIRS] = torch_onnx(subject.ep).model_proto
        except Exception as error:  # torch.onnx lacks operators of some models
            errors[THEIRS] = reason(error)
    protos[WITHOUT], _ = subject.ours(["none"])
    protos[WITH], rewrites = subject.ours(options.set)
    record: Record = {"nodes": {}, "operators": {}, "opset": {}, "functions": {}, "kernels": {}}
    for label, proto in protos.items():
        counts = collections.Counter(operators(proto.graph))
        record["nodes"][label] = sum(counts.values())
        record["operators"][label] = dict(counts.most_common())
        record["functions"][label] = len(proto.functions)
        record["kernels"][label] = kernels(proto)
        record["opset"][label] = next(x.version for x in proto.opset_import if not x.domain)
    record["rules"] = rewrites.counts()
    record["tried"] = {
        name: {"tried": each.tried, "seconds": each.seconds, "refused": dict(each.refused)}
        for name, each in sorted(rewrites.statistics.items())
    }
    if not options.no_latency:
        record.update(measure_latency(subject, protos))
    return record


def kernels(proto: Any) -> int:
    """Nodes of the graph that ONNX Runtime runs, after its own optimizer."""
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
        made = onnxruntime.InferenceSession(
            proto.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
        del made
        return len(operators(onnx.load(path, load_external_data=False).graph))


def measure_latency(subject: Subject, protos: dict[str, Any]) -> Record:
    """Seconds of a call of each session, in turns, and the difference from eager.

    The graph of torch.onnx has the first and the last session, the one with rewrites two in the
    middle: whatever the order of creation does shows in the bands.
    """
    expected = subject.expected()
    order = (THEIRS, WITHOUT, WITH, WITH + AGAIN, THEIRS + AGAIN)
    calls: dict[str, Call] = {}
    apart: dict[str, float] = {}
    for label in order:
        proto = protos.get(label.removesuffix(AGAIN))
        if proto is not None:
            calls[label] = subject.run(proto)
            apart[label] = subject.error(calls[label], expected)
        del proto
    protos.clear()
    found = subject.interleave(calls, subject.options.seconds)
    return {"difference": apart, **figures(found)}


def figures(found: Mapping[str, Sequence[float]]) -> Record:
    """Medians, bands and ratios of series of seconds.

    A ratio is formed inside a round, between means of the sessions that a graph has; its spread is
    half of the middle half of the rounds. A band is that of two sessions of one graph.
    """
    record: Record = {
        "rounds": len(next(iter(found.values()))),
        "latency": {label: statistics.median(times) for label, times in found.items()},
        "band": {
            label: band(found, label, label + AGAIN) for label in found if label + AGAIN in found
        },
        "ratio": {},
        "spread": {},
    }
    means: dict[str, list[float]] = {}
    for label in (THEIRS, WITHOUT, WITH):
        series = [found[name] for name in (label, label + AGAIN) if name in found]
        if series:
            means[label] = [statistics.fmean(times) for times in zip(*series, strict=True)]
    for label, base in ((WITHOUT, THEIRS), (WITH, THEIRS), (WITH, WITHOUT)):
        if label in means and base in means:
            name = f"{label} / {base}"
            ratios = sorted(a / b for a, b in zip(means[label], means[base], strict=True))
            quarter = len(ratios) // 4
            record["ratio"][name] = statistics.median(ratios)
            record["spread"][name] = (ratios[-1 - quarter] - ratios[quarter]) / 2
    return record


def measure_rules(subject: Subject) -> dict[str, Record]:
    """What single rules do to the latency: the graph without the rule against the graph with it,
    which has two sessions. A ratio above 1 says that the rule pays.

    A rule that is off by default is added on one side instead of being taken away on the other.
    """
    options = subject.options
    usual, rewrites = subject.ours(options.set)
    fired = rewrites.counts()
    wanted = list(fired) if options.rules == ["all"] else options.rules
    expected = subject.expected()
    calls = {WITH: subject.run(usual), WITH + AGAIN: subject.run(usual)}
    nodes = len(operators(usual.graph))
    del usual
    found: dict[str, Record] = {}
    for rule in wanted:
        added = rule not in fired
        names = [*options.set, rule if added else f"-{rule}"]
        proto, changed = subject.ours(names)
        count = changed.counts().get(rule, 0) if added else fired[rule]
        if not count:
            continue  # no place for it in this model
        other = subject.run(proto)
        taken = len(operators(proto.graph)) - nodes
        del proto
        apart = subject.error(other, expected)
        series = subject.interleave({WITHOUT: other, **calls}, min(RULE_SECONDS, options.seconds))
        measured = figures(series)
        ratio = measured["ratio"][f"{WITH} / {WITHOUT}"]
        found[rule] = {
            "fired": count,
            "added": added,
            "nodes_saved": -taken if added else taken,
            "ratio": ratio if added else 1 / ratio,
            "band": measured["band"][WITH],
            "spread": measured["spread"][f"{WITH} / {WITHOUT}"],
            "rounds": measured["rounds"],
            "difference": apart,
        }
    return found


def measure_depth(layers: int, dynamic: bool, options: argparse.Namespace) -> Record:
    """Seconds of conversion and rewriting of a BERT of that many narrow layers."""
    quiet()
    torch.set_num_threads(options.threads)
    ep = deep_bert(layers, dynamic)
    record: Record = {
        "layers": layers,
        "dynamic": dynamic,
        "fx_nodes": len(ep.graph.nodes),
        "conversion": conversion(ep, options),
        "nodes": {},
    }
    for label, names in ((WITHOUT, ["none"]), (WITH, options.set)):
        proto, builder = ours(ep, names, options)
        record["nodes"][label] = len(operators(proto.graph))
    record["rules"] = builder.record.rewrites.counts()
    return record
