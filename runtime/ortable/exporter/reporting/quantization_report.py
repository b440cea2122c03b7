"""Quantize weights and measure the error of layers and outputs.

With ``max_error``, bisects which layers stay in float so that the error stays below it. Edits the
graph in place and returns a `WeightReport`; called by conversion.py for ``weights=``.
"""

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

_INPUT_PREFIX = "given:"  # before the name of what a layer is given, where that is an input
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
        return tuple(weight for weight in self.weights if weight.bits < 32)

    @property
    def error(self) -> float | None:
        """The largest `OutputError.error`; None without example inputs."""
        return max((output.error for output in self.outputs), default=None)

    def to_json(self) -> str:
        """All of it as JSON, numbers in full."""
        return json.dumps(asdict(replace(self, nodes=dict(self.nodes))), indent=2)

    def __str__(self) -> str:
        stays = len(self.rounded) < len(self.weights)
        rows = [
            (
                *(item.name, str(list(item.shape)), str(item.bits)),
                *map(_format_number, _weight_errors(item)),
                *([item.why] if stays else []),
            )
            for item in sorted(self.weights, key=lambda each: -max(_weight_errors(each)))
        ]
        heads = ["weight", "shape", "bits", "error of the weight", "of the layer"]
        heads += ["why it stays"] if stays else []
        outputs = [
            (item.name, _format_number(item.error), _format_number(item.largest))
            for item in self.outputs
        ]
        limit = "" if self.max_error is None else f", at most {self.max_error:g} asked for"
        mega = f"{self.bytes_before / 1e6:,.1f} MB of weights became {self.bytes_after / 1e6:,.1f}"
        summary = (
            f"{len(self.rounded)} of {len(self.weights)} weights are {self.options.kind}{limit}"
        )
        parts = [f"{summary}; {mega}", text_table(heads, rows)]
        if outputs:
            parts.append(text_table(("output", "error", "largest difference"), outputs))
        return "\n\n".join(parts)


def _weight_errors(weight: RoundedWeight) -> tuple[float, float]:
    return weight.weight_error, -1.0 if weight.layer_error is None else weight.layer_error


def _format_number(value: float) -> str:
    return "" if value < 0 else f"{value:.3g}"


# -- rounding with a limit


def quantize_builder(
    builder: GraphBuilder,
    options: WeightOptions,
    feeds: Mapping[str, Any] | None,
    max_error: float | None,
    record: RewriteRecord,
) -> WeightReport:
    """Quantize the weights of a graph in place, except those that ``max_error`` excludes.

    Nothing is measured without ``feeds``. Raises ExportError where ``max_error`` cannot be met, or
    there is nothing to measure it with.
    """
    before = _initializer_bytes(builder)
    quantized: dict[tuple[str, bool], QuantizedTensor] = {}
    excluded: tuple[str, ...] = ()
    errors: dict[str, float] = {}
    outputs: tuple[OutputError, ...] = ()
    first = None
    if feeds is not None:
        trial = _QuantizationTrial(builder, options, feeds, quantized)
        first, errors, outputs = trial.quantize_all()
        if max_error is not None:
            excluded, outputs = trial.fit_limit(max_error, errors, outputs)
    elif max_error is not None:
        raise ExportError("max_error needs example inputs to measure the model with: give args")
    final = options.without(excluded) if excluded else options
    rounding = quantize_weights(builder, final, record, quantized)
    every = rounding if first is None else first
    nodes = _count_readers(builder, rounding)
    weights = _report_rows(every, excluded, errors)
    return WeightReport(
        final, weights, outputs, max_error, before, _initializer_bytes(builder), nodes
    )


def _report_rows(
    rounding: QuantizationRun, limited: Sequence[str], errors: Mapping[str, float]
) -> tuple[RoundedWeight, ...]:
    """Return a row for each chosen weight; those of ``limited`` stay in float for the limit."""
    return (
        *(
            RoundedWeight(weight.name, weight.shape, 32, 0.0, 0.0, "the limit max_error")
            if weight.name in limited
            else RoundedWeight(
                weight.name, weight.shape, weight.bits, weight.error, errors.get(weight.name)
            )
            for weight in rounding.rounded.values()
        ),
        *(
            RoundedWeight(weight.name, weight.shape, 32, 0.0, 0.0, weight.why)
            for weight in rounding.kept.values()
        ),
    )


class _QuantizationTrial:
    """Models with some of the weights quantized, compared with the original on given inputs."""

    def __init__(
        self,
        builder: GraphBuilder,
        options: WeightOptions,
        feeds: Mapping[str, Any],
        quantized: dict[tuple[str, bool], QuantizedTensor],
    ) -> None:
        self.builder, self.options, self.feeds, self.quantized = builder, options, feeds, quantized
        self.base: LargeModel = builder.to_onnx(
            large_model=True, external_threshold=1024, optimize=False
        )
        self.names = [output.name for output in self.base.proto.graph.output]
        self.expected: list[torch.Tensor] = []

    def quantize_all(self) -> tuple[QuantizationRun, dict[str, float], tuple[OutputError, ...]]:
        """Quantize all weights; return the result, the error by weight of its layer, and of the
        outputs.
        """
        record = RewriteRecord()
        rounding, model, graph = self._quantize_copy(self.options, record)
        layers = _find_layers(self.builder, rounding, record, graph)
        inner = list(
            dict.fromkeys(name for layer in layers for name in (layer.source, layer.result))
        )
        inner = [name for name in inner if name not in self.feeds and name not in self.names]
        session = make_session(with_outputs(self.base, inner))
        results = run_session(session, dict(self.feeds))
        self.expected = results[: len(self.names)]
        values = dict(zip((*self.names, *inner), results, strict=True))
        values.update({k: torch.as_tensor(np.asarray(v)) for k, v in self.feeds.items()})
        return (
            rounding,
            _compute_layer_errors(layers, model, graph, values),
            self._measure_outputs(model),
        )

    def fit_limit(
        self, limit: float, errors: Mapping[str, float], outputs: tuple[OutputError, ...]
    ) -> tuple[tuple[str, ...], tuple[OutputError, ...]]:
        """Bisect the weights to exclude, those with the largest layer errors first, and the
        errors then.
        """
        order = sorted(errors, key=lambda name: -errors[name])
        if _largest_error(outputs) <= limit:
            return (), outputs
        least, most, best = 1, len(order), None
        while least <= most:
            count = (least + most) // 2
            excluded = tuple(order[:count])
            _, model, _ = self._quantize_copy(self.options.without(excluded), RewriteRecord())
            measured = self._measure_outputs(model)
            if _largest_error(measured) <= limit:
                most, best = count - 1, (excluded, measured)
            else:
                least = count + 1
        if best is None:
            raise ExportError(
                f"max_error={limit:g} cannot be kept: with all {len(order)} weights of measured "
                f"layers as they are the error is {_largest_error(measured):.3g}"
            )
        return best

    def _quantize_copy(
        self, options: WeightOptions, record: RewriteRecord
    ) -> tuple[QuantizationRun, LargeModel, GraphBuilder]:
        copy = GraphBuilder(self.base.session_proto(), target=self.builder.target)
        copy.initializers_dict.update(self.base.tensors)
        rounding = quantize_weights(copy, options, record, self.quantized)
        model = copy.to_onnx(large_model=True, external_threshold=1024, optimize=False)
        return rounding, model, copy

    def _measure_outputs(self, model: LargeModel) -> tuple[OutputError, ...]:
        results = run_session(make_session(model), dict(self.feeds))
        return tuple(
            OutputError(name, *_relative_error(new, old))
            for name, new, old in zip(self.names, results, self.expected, strict=True)
            if old.dtype in _FLOATS
        )


def _largest_error(outputs: Sequence[OutputError]) -> float:
    return max((output.error for output in outputs), default=0.0)


def _relative_error(new: torch.Tensor, old: torch.Tensor) -> tuple[float, float]:
    """Return relative error and largest difference; equal values, also infinities, do not
    differ.
    """
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
    source: str
    result: str


def _find_layers(
    builder: GraphBuilder, rounding: QuantizationRun, record: RewriteRecord, after: GraphBuilder
) -> list[_Layer]:
    """Find the layers outside branches and loops; ``after`` is the graph with quantized weights."""
    names = {name: item.name for name, item in rounding.rounded.items()}
    layers: dict[str, _Layer] = {}
    for fired in record.fired:
        info = None if fired.graph else builder.values.get(fired.results[0])
        node = None if info is None else info.producer
        if node is None:
            continue  # made by a rule before
        for name in node.inputs:
            made_by = builder.values[name].producer if name else None
            weight = name if made_by is None or not made_by.inputs else made_by.inputs[0]
            if weight in names:
                source = next(item for item in node.inputs if item and item != name)
                result = _layer_result(builder, node.outputs[0], after)
                layers[result] = _Layer(names[weight], source, result)
    return list(layers.values())


def _layer_result(builder: GraphBuilder, result: str, after: GraphBuilder) -> str:
    """Return the result of a layer, or of a bias that reads it alone and is fused into the
    kernel.
    """
    readers = builder.uses(result)
    if result in after.values or len(readers) != 1:
        return result
    return readers[0].outputs[0]


def _compute_layer_errors(
    layers: Sequence[_Layer],
    model: LargeModel,
    graph: GraphBuilder,
    values: Mapping[str, torch.Tensor],
) -> dict[str, float]:
    """Compare each layer of the quantized model with the original, given the original's inputs."""
    here = [layer for layer in layers if layer.result in graph.values]  # else inside a kernel
    probe = _extract_subgraph(
        model, graph, [layer.source for layer in here], [layer.result for layer in here]
    )
    layer_feeds = {_INPUT_PREFIX + layer.source: values[layer.source].numpy() for layer in here}
    names = [layer.name for layer in probe.proto.graph.output]
    results = (
        dict(zip(names, run_session(make_session(probe), layer_feeds), strict=True))
        if names
        else {}
    )
    errors: dict[str, float] = {}
    for layer in here:
        error, _ = _relative_error(results[layer.result], values[layer.result])
        errors[layer.weight] = max(errors.get(layer.weight, 0.0), error)
    return errors


def _extract_subgraph(
    model: LargeModel, graph: GraphBuilder, sources: Sequence[str], targets: Sequence[str]
) -> LargeModel:
    """Extract the part of a model that computes ``targets`` from ``sources``, which become inputs.

    They get new names, since the part may compute some of them, too.
    """
    proto = onnx.ModelProto()
    proto.CopyFrom(model.session_proto())
    makers = {name: node for node in proto.graph.node for name in node.output}
    needed: dict[int, None] = {}
    waiting = list(targets)
    while waiting:
        node = makers.get(waiting.pop())
        if node is not None and id(node) not in needed:
            needed[id(node)] = None
            waiting += [name for name in node.input if name not in sources]
    nodes = [node for node in proto.graph.node if id(node) in needed]
    for node in nodes:
        node.input[:] = [_INPUT_PREFIX + name if name in sources else name for name in node.input]
    read = {name for node in nodes for name in node.input}
    weights = [item for item in proto.graph.initializer if item.name in read]
    inputs = [
        _make_value_info(graph, name, _INPUT_PREFIX + name) for name in dict.fromkeys(sources)
    ]
    outputs = [_make_value_info(graph, name) for name in dict.fromkeys(targets)]
    for part, values in (
        (proto.graph.node, nodes),
        (proto.graph.initializer, weights),
        (proto.graph.input, inputs),
        (proto.graph.output, outputs),
    ):
        copies: list[Any] = [type(item).FromString(item.SerializeToString()) for item in values]
        del part[:]
        part.extend(copies)
    tensors = {
        item.name: model.tensors[item.name] for item in weights if item.name in model.tensors
    }
    return LargeModel(proto, tensors)


def _make_value_info(graph: GraphBuilder, name: str, called: str = "") -> onnx.ValueInfoProto:
    return onnx.helper.make_tensor_value_info(called or name, graph.get_type(name), None)


# -- what a graph holds


def _initializer_bytes(builder: GraphBuilder) -> int:
    total = 0
    for value in builder.initializers_dict.values():
        size = initializers.nbytes_of(value)
        if not size:  # codes of 4 bits, two in a byte
            size = -(-initializers.size_of(value) // 2)
        total += size
    return int(total)


def _count_readers(builder: GraphBuilder, rounding: QuantizationRun) -> dict[str, int]:
    """Count the nodes that read codes, by operator."""
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


def store_half_weights(builder: GraphBuilder, kind: Stored, record: RewriteRecord) -> StoredWeights:
    """Store half-precision weights as requested, in place, after all other passes."""
    half, every = _half_bytes(builder)
    if kind == "float32":
        rewrite_graph(builder, rule_selection.select_rules("half_weight_as_float32"), record)
        builder.remove_unused()
    return StoredWeights(kind, half, _half_bytes(builder)[0], every, _half_bytes(builder)[1])


def _half_bytes(builder: GraphBuilder) -> tuple[int, int]:
    """Return the bytes of half-precision initializers, and of all."""
    half = every = 0
    for value in builder.initializers_dict.values():
        size = int(initializers.nbytes_of(value))
        every += size
        half += size if initializers.dtype_of(value) in HALVES else 0
    return half, every
