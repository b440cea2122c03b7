"""How far a model with rounded weights is from the model with the weights as they were, and which
weights stay as they are so that it is no further than a limit. In come a graph, `WeightOptions` and
values of its inputs, out comes a `WeightReport`; the graph is changed in place. Called by to_onnx
for ``weights=``."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import onnx
import torch

from ortable.builder import GraphBuilder
from ortable.errors import ExportError
from ortable.exporter.reporting.numeric_diff import with_outputs
from ortable.exporter.reporting.sessions import make_session, run_session
from ortable.exporter.reporting.validate import text_table
from ortable.ir import initializers
from ortable.ir.casts import HALVES
from ortable.ir.proto.large_model import LargeModel
from ortable.passes.quantize_weights import quantize_weights
from ortable.passes.rewrite import rule_selection
from ortable.passes.rewrite.engine import rewrite_graph
from ortable.passes.rewrite.record import RewriteRecord
from ortable.passes.weight_quantization import (
    QuantizationRun,
    QuantizedTensor,
    Stored,
    WeightOptions,
)

_GIVEN = "given:"  # before the name of what a layer is given, where that is an input
_FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


@dataclass(frozen=True)
class RoundedWeight:
    """A weight that ``weights=`` chooses.

    Attributes:
        name: as in the state_dict.
        shape: [N, K]: N results, or N embeddings, of K numbers.
        bits: of a code; 32 where the weight stayed as it is.
        weight_error: root of the mean square of what rounding changed, over that of the weight.
        layer_error: the same of what the layer computes, given what it is given in the model as it
            was: activations are rounded too where they are. None without example inputs, and
            for layers in branches and loops.
        why: why the weight stayed as it is; empty where it was rounded.
    """

    name: str
    shape: tuple[int, int]
    bits: int
    weight_error: float
    layer_error: float | None = None
    why: str = ""


@dataclass(frozen=True)
class OutputError:
    """An output of the model with rounded weights beside the same of the model as it was.

    Attributes:
        name: of the output.
        error: root of the mean square of the difference, over that of the output as it was.
        largest: the largest absolute difference.
    """

    name: str
    error: float
    largest: float


@dataclass(frozen=True)
class WeightReport:
    """What ``weights=`` did, and how accurate the model is: a certificate for the inputs that it
    was run on.

    Attributes:
        options: what was asked for; ``exclude`` has what the limit left as it is.
        weights: every weight that was chosen, those that stayed as they are too.
        outputs: one for each output of floats; empty without example inputs.
        max_error: the limit, None without one.
        bytes_before, bytes_after: of the initializers of the model.
        nodes: how many nodes of each operator read codes.
    """

    options: WeightOptions
    weights: tuple[RoundedWeight, ...]
    outputs: tuple[OutputError, ...]
    max_error: float | None
    bytes_before: int
    bytes_after: int
    nodes: Mapping[str, int]

    @property
    def rounded(self) -> tuple[RoundedWeight, ...]:
        """The weights that were rounded."""
        return tuple(each for each in self.weights if each.bits < 32)

    @property
    def error(self) -> float | None:
        """The largest `OutputError.error`; None without example inputs."""
        return max((each.error for each in self.outputs), default=None)

    def to_json(self) -> str:
        """All of it as JSON, numbers in full."""
        return json.dumps(asdict(replace(self, nodes=dict(self.nodes))), indent=2)

    def __str__(self) -> str:
        stays = len(self.rounded) < len(self.weights)
        rows = [
            (
                *(each.name, str(list(each.shape)), str(each.bits)),
                *map(_short, _errors(each)),
                *([each.why] if stays else []),
            )
            for each in sorted(self.weights, key=lambda each: -max(_errors(each)))
        ]
        heads = ["weight", "shape", "bits", "error of the weight", "of the layer"]
        heads += ["why it stays"] if stays else []
        outputs = [(each.name, _short(each.error), _short(each.largest)) for each in self.outputs]
        limit = "" if self.max_error is None else f", at most {self.max_error:g} asked for"
        mega = f"{self.bytes_before / 1e6:,.1f} MB of weights became {self.bytes_after / 1e6:,.1f}"
        said = f"{len(self.rounded)} of {len(self.weights)} weights are {self.options.kind}{limit}"
        parts = [f"{said}; {mega}", text_table(heads, rows)]
        if outputs:
            parts.append(text_table(("output", "error", "largest difference"), outputs))
        return "\n\n".join(parts)


def _errors(weight: RoundedWeight) -> tuple[float, float]:
    return weight.weight_error, -1.0 if weight.layer_error is None else weight.layer_error


def _short(value: float) -> str:
    return "" if value < 0 else f"{value:.3g}"


# -- rounding with a limit


def rounded_builder(
    builder: GraphBuilder,
    options: WeightOptions,
    feeds: Mapping[str, Any] | None,
    max_error: float | None,
    record: RewriteRecord,
) -> WeightReport:
    """Rounds the weights of a graph in place, but for those without which the limit is not kept.

    Nothing is measured without ``feeds``. Raises ExportError where ``max_error`` cannot be kept, or
    there is nothing to measure it with.
    """
    before = _bytes(builder)
    made: dict[tuple[str, bool], QuantizedTensor] = {}
    kept: tuple[str, ...] = ()
    errors: dict[str, float] = {}
    outputs: tuple[OutputError, ...] = ()
    first = None
    if feeds is not None:
        trial = _Trial(builder, options, feeds, made)
        first, errors, outputs = trial.first()
        if max_error is not None:
            kept, outputs = trial.within(max_error, errors, outputs)
    elif max_error is not None:
        raise ExportError("max_error needs example inputs to measure the model with: give args")
    final = options.without(kept) if kept else options
    rounding = quantize_weights(builder, final, record, made)
    every = rounding if first is None else first
    nodes = _readers(builder, rounding)
    weights = _rows(every, kept, errors)
    return WeightReport(final, weights, outputs, max_error, before, _bytes(builder), nodes)


def _rows(
    rounding: QuantizationRun, limited: Sequence[str], errors: Mapping[str, float]
) -> tuple[RoundedWeight, ...]:
    """The chosen weights: those of ``limited`` stay as they are for the limit."""
    return (
        *(
            RoundedWeight(each.name, each.shape, 32, 0.0, 0.0, "the limit max_error")
            if each.name in limited
            else RoundedWeight(each.name, each.shape, each.bits, each.error, errors.get(each.name))
            for each in rounding.rounded.values()
        ),
        *(
            RoundedWeight(each.name, each.shape, 32, 0.0, 0.0, each.why)
            for each in rounding.kept.values()
        ),
    )


class _Trial:
    """Models with some of the weights rounded, beside the model as it was, on given inputs."""

    def __init__(
        self,
        builder: GraphBuilder,
        options: WeightOptions,
        feeds: Mapping[str, Any],
        made: dict[tuple[str, bool], QuantizedTensor],
    ) -> None:
        self.builder, self.options, self.feeds, self.made = builder, options, feeds, made
        self.base: LargeModel = builder.to_onnx(
            large_model=True, external_threshold=1024, optimize=False
        )
        self.names = [each.name for each in self.base.proto.graph.output]
        self.wanted: list[torch.Tensor] = []

    def first(self) -> tuple[QuantizationRun, dict[str, float], tuple[OutputError, ...]]:
        """All weights rounded: what was, the error of each layer by the name of its weight, and of
        the outputs."""
        record = RewriteRecord()
        rounding, model, graph = self._rounded(self.options, record)
        layers = _layers(self.builder, rounding, record, graph)
        inner = list(dict.fromkeys(name for each in layers for name in (each.given, each.made)))
        inner = [name for name in inner if name not in self.feeds and name not in self.names]
        session = make_session(with_outputs(self.base, inner))
        found = run_session(session, dict(self.feeds))
        self.wanted = found[: len(self.names)]
        known = dict(zip((*self.names, *inner), found, strict=True))
        known.update({k: torch.as_tensor(np.asarray(v)) for k, v in self.feeds.items()})
        return rounding, _layer_errors(layers, model, graph, known), self._outputs(model)

    def within(
        self, limit: float, errors: Mapping[str, float], outputs: tuple[OutputError, ...]
    ) -> tuple[tuple[str, ...], tuple[OutputError, ...]]:
        """The weights to keep, those of the layers that are furthest off first, and the errors of
        the outputs then: as few as bisection finds."""
        order = sorted(errors, key=lambda name: -errors[name])
        if _worst(outputs) <= limit:
            return (), outputs
        least, most, best = 1, len(order), None
        while least <= most:
            count = (least + most) // 2
            kept = tuple(order[:count])
            _, model, _ = self._rounded(self.options.without(kept), RewriteRecord())
            found = self._outputs(model)
            if _worst(found) <= limit:
                most, best = count - 1, (kept, found)
            else:
                least = count + 1
        if best is None:
            raise ExportError(
                f"max_error={limit:g} cannot be kept: with all {len(order)} weights of measured "
                f"layers as they are the error is {_worst(found):.3g}"
            )
        return best

    def _rounded(
        self, options: WeightOptions, record: RewriteRecord
    ) -> tuple[QuantizationRun, LargeModel, GraphBuilder]:
        copy = GraphBuilder(self.base.session_proto(), target=self.builder.target)
        copy.initializers_dict.update(self.base.tensors)
        rounding = quantize_weights(copy, options, record, self.made)
        model = copy.to_onnx(large_model=True, external_threshold=1024, optimize=False)
        return rounding, model, copy

    def _outputs(self, model: LargeModel) -> tuple[OutputError, ...]:
        found = run_session(make_session(model), dict(self.feeds))
        return tuple(
            OutputError(name, *_distance(new, old))
            for name, new, old in zip(self.names, found, self.wanted, strict=True)
            if old.dtype in _FLOATS
        )


def _worst(outputs: Sequence[OutputError]) -> float:
    return max((each.error for each in outputs), default=0.0)


def _distance(new: torch.Tensor, old: torch.Tensor) -> tuple[float, float]:
    """Relative error and largest difference; numbers that both have, infinite ones too, are no
    difference."""
    a, b = new.double(), old.double()
    gap = torch.where((a == b) | (a.isnan() & b.isnan()), 0.0, (a - b).abs())
    gap = gap.nan_to_num(nan=math.inf, posinf=math.inf)
    if not gap.numel():
        return 0.0, 0.0
    size = b[b.isfinite()].norm().item()
    wrong = gap.norm().item()
    return (0.0 if not wrong else wrong / size if size else math.inf), gap.max().item()


# -- layers


@dataclass(frozen=True)
class _Layer:
    """A node that reads a rounded weight: what it is given and what it makes, in the model as it
    was; the result has the same name afterwards."""

    weight: str
    given: str
    made: str


def _layers(
    builder: GraphBuilder, rounding: QuantizationRun, record: RewriteRecord, after: GraphBuilder
) -> list[_Layer]:
    """Those outside of branches and loops; ``after`` is the graph with rounded weights."""
    names = {name: each.name for name, each in rounding.rounded.items()}
    found: dict[str, _Layer] = {}
    for fired in record.fired:
        info = None if fired.graph else builder.values.get(fired.results[0])
        node = None if info is None else info.producer
        if node is None:
            continue  # made by a rule before
        for name in node.inputs:
            made_by = builder.values[name].producer if name else None
            weight = name if made_by is None or not made_by.inputs else made_by.inputs[0]
            if weight in names:
                given = next(each for each in node.inputs if each and each != name)
                made = _told(builder, node.outputs[0], after)
                found[made] = _Layer(names[weight], given, made)
    return list(found.values())


def _told(builder: GraphBuilder, made: str, after: GraphBuilder) -> str:
    """The result of a layer, or of the one node that reads it, a bias that is part of the kernel
    afterwards."""
    readers = builder.uses(made)
    if made in after.values or len(readers) != 1:
        return made
    return readers[0].outputs[0]


def _layer_errors(
    layers: Sequence[_Layer],
    model: LargeModel,
    graph: GraphBuilder,
    known: Mapping[str, torch.Tensor],
) -> dict[str, float]:
    """How far each layer of the rounded model is from what it was, given what it was given."""
    here = [each for each in layers if each.made in graph.values]  # else inside a kernel
    probe = _between(model, graph, [each.given for each in here], [each.made for each in here])
    given = {_GIVEN + each.given: known[each.given].numpy() for each in here}
    names = [each.name for each in probe.proto.graph.output]
    found = dict(zip(names, run_session(make_session(probe), given), strict=True)) if names else {}
    errors: dict[str, float] = {}
    for each in here:
        error, _ = _distance(found[each.made], known[each.made])
        errors[each.weight] = max(errors.get(each.weight, 0.0), error)
    return errors


def _between(
    model: LargeModel, graph: GraphBuilder, given: Sequence[str], made: Sequence[str]
) -> LargeModel:
    """The part of a model that computes results of others, which become its inputs: named anew,
    since some are computed here, too."""
    proto = onnx.ModelProto()
    proto.CopyFrom(model.session_proto())
    makers = {name: node for node in proto.graph.node for name in node.output}
    needed: dict[int, None] = {}
    waiting = list(made)
    while waiting:
        node = makers.get(waiting.pop())
        if node is not None and id(node) not in needed:
            needed[id(node)] = None
            waiting += [name for name in node.input if name not in given]
    nodes = [node for node in proto.graph.node if id(node) in needed]
    for node in nodes:
        node.input[:] = [_GIVEN + name if name in given else name for name in node.input]
    read = {name for node in nodes for name in node.input}
    weights = [each for each in proto.graph.initializer if each.name in read]
    inputs = [_value(graph, name, _GIVEN + name) for name in dict.fromkeys(given)]
    outputs = [_value(graph, name) for name in dict.fromkeys(made)]
    for part, values in (
        (proto.graph.node, nodes),
        (proto.graph.initializer, weights),
        (proto.graph.input, inputs),
        (proto.graph.output, outputs),
    ):
        copies: list[Any] = [type(each).FromString(each.SerializeToString()) for each in values]
        del part[:]
        part.extend(copies)
    tensors = {
        each.name: model.tensors[each.name] for each in weights if each.name in model.tensors
    }
    return LargeModel(proto, tensors)


def _value(graph: GraphBuilder, name: str, called: str = "") -> onnx.ValueInfoProto:
    return onnx.helper.make_tensor_value_info(called or name, graph.get_type(name), None)


# -- what a graph holds


def _bytes(builder: GraphBuilder) -> int:
    total = 0
    for value in builder.initializers_dict.values():
        size = initializers.nbytes_of(value)
        if not size:  # codes of 4 bits, two in a byte
            size = -(-initializers.size_of(value) // 2)
        total += size
    return int(total)


def _readers(builder: GraphBuilder, rounding: QuantizationRun) -> dict[str, int]:
    """Nodes that read codes, by operator."""
    stored = {name for parts in rounding.codes.values() for name in parts if name}
    stored |= set(rounding.packed.values())
    counts: dict[str, int] = {}
    for node in builder.nodes:
        if any(name in stored for name in node.inputs):
            counts[node.op_type] = counts.get(node.op_type, 0) + 1
    return counts


# -- weights of bfloat16 and float16: as they are, or in float32 where the graph casts them


@dataclass(frozen=True)
class StoredWeights:
    """What ``weights="keep"`` and ``weights="float32"`` did to a model of half floats.

    Attributes:
        kind: what was asked for.
        half_bytes_before, half_bytes_after: of the initializers of bfloat16 and float16.
        bytes_before, bytes_after: of all initializers.
    """

    kind: Stored
    half_bytes_before: int
    half_bytes_after: int
    bytes_before: int
    bytes_after: int

    def __str__(self) -> str:
        half = f"{self.half_bytes_before / 1e6:,.1f} MB of 16 bits"
        left = f"{self.half_bytes_after / 1e6:,.1f} of 16 bits"
        return (
            f"weights={self.kind!r}: {half} among {self.bytes_before / 1e6:,.1f} MB of weights "
            f"became {left} among {self.bytes_after / 1e6:,.1f}"
        )


def stored_builder(builder: GraphBuilder, kind: Stored, record: RewriteRecord) -> StoredWeights:
    """Stores the weights of a graph as asked, in place, after all other passes."""
    half, every = _half_bytes(builder)
    if kind == "float32":
        rewrite_graph(builder, rule_selection.select_rules("half_weight_as_float32"), record)
        builder.remove_unused()
    return StoredWeights(kind, half, _half_bytes(builder)[0], every, _half_bytes(builder)[1])


def _half_bytes(builder: GraphBuilder) -> tuple[int, int]:
    """Of initializers of half floats, and of all."""
    half = every = 0
    for value in builder.initializers_dict.values():
        size = int(initializers.nbytes_of(value))
        every += size
        half += size if initializers.dtype_of(value) in HALVES else 0
    return half, every
