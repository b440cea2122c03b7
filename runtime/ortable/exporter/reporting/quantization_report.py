"""Quantize weights and measure the error of layers and outputs.

With ``max_error``, a bisection finds which layers have to stay in float so that the error of no
output exceeds it. conversion.py calls `quantize_builder` or `store_half_weights` for ``weights=``.
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

from ortable import dtypes
from ortable.builder import GraphBuilder
from ortable.errors import ExportError
from ortable.exporter.reporting.numeric_diff import with_outputs
from ortable.exporter.reporting.sessions import make_session, run_session
from ortable.exporter.reporting.validate import text_table
from ortable.exporter.reporting.value_ranges import measure_ranges
from ortable.ir import initializers
from ortable.ir.casts import HALF_DTYPES
from ortable.ir.proto.large_model import LargeModel
from ortable.passes.float16_conversion import convert_to_float16
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

_INPUT_PREFIX = "given:"  # prefix of the inputs of an extracted subgraph
_FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


@dataclass(frozen=True)
class RoundedWeight:
    """A weight that ``weights=`` selects.

    Attributes:
        name: the name in the state_dict.
        shape: [N, K]: N results, or N embeddings, of K numbers; that of the weight if its bits are
            16.
        bits: the bits of a code; 16 for float16, and 32 if the weight is float32.
        weight_error: the relative error of the weight: root mean square of the rounding error,
            divided by that of the weight. 0 if the weight is not quantized.
        layer_error: the relative error of the layer's result for the layer's inputs in the
            unquantized model; includes the rounding of activations, if they are quantized. 0 if the
            weight is not quantized. None if the result was not measured: without example inputs, in
            branches and loops, and inside fused kernels.
        why: why the weight is not quantized; empty if it is.
    """

    name: str
    shape: tuple[int, ...]
    bits: int
    weight_error: float
    layer_error: float | None = None
    why: str = ""


@dataclass(frozen=True)
class OutputError:
    """The error that quantized weights cause in one output.

    Attributes:
        name: the name of the output.
        error: root mean square of the difference, divided by that of the unquantized output.
        largest: the largest absolute difference.
    """

    name: str
    error: float
    largest: float


@dataclass(frozen=True)
class WeightReport:
    """The result of ``weights=``: quantized weights, and the accuracy on the example inputs.

    Attributes:
        options: the requested options; ``exclude`` also names the weights that ``max_error`` keeps.
        weights: every selected weight, quantized or not.
        outputs: the errors of floating-point outputs; empty without example inputs.
        max_error: the requested limit of the error of an output, or None.
        bytes_before: the size of the initializers of the unquantized model.
        bytes_after: the size of the initializers of the quantized model.
        nodes: the number of nodes that read quantized weights, by operator.
        float32_nodes: in a float16 model, the number of nodes that stay in float32, by operator
            and reason.
    """

    options: WeightOptions
    weights: tuple[RoundedWeight, ...]
    outputs: tuple[OutputError, ...]
    max_error: float | None
    bytes_before: int
    bytes_after: int
    nodes: Mapping[str, int]
    float32_nodes: tuple[tuple[str, str, int], ...] = ()

    @property
    def rounded(self) -> tuple[RoundedWeight, ...]:
        """The weights that are quantized."""
        return tuple(weight for weight in self.weights if weight.bits < 32)

    @property
    def error(self) -> float | None:
        """The largest `OutputError.error`; None if no output was measured."""
        return max((output.error for output in self.outputs), default=None)

    def to_json(self) -> str:
        """Return the report as JSON, with numbers in full precision."""
        return json.dumps(asdict(replace(self, nodes=dict(self.nodes))), indent=2)

    def __str__(self) -> str:
        has_unquantized = any(weight.why for weight in self.weights)
        rows = [
            (
                *(item.name, str(list(item.shape)), str(item.bits)),
                *map(_format_number, _weight_errors(item)),
                *([item.why] if has_unquantized else []),
            )
            for item in sorted(self.weights, key=lambda weight: -max(_weight_errors(weight)))
        ]
        headers = ["weight", "shape", "bits", "error of the weight", "of the layer"]
        headers += ["why it stays"] if has_unquantized else []
        outputs = [
            (item.name, _format_number(item.error), _format_number(item.largest))
            for item in self.outputs
        ]
        limit = "" if self.max_error is None else f", max_error={self.max_error:g}"
        sizes = f"{self.bytes_before / 1e6:,.1f} MB of weights became {self.bytes_after / 1e6:,.1f}"
        codes = [item for item in self.rounded if item.bits == self.options.bits]
        kind = f"{self.options.kind}{', float16 else' * self.options.has_float16_rest}"
        summary = f"{len(codes)} of {len(self.weights)} weights are {kind}{limit}"
        sections = [f"{summary}; {sizes}", text_table(headers, rows)]
        if outputs:
            sections.append(text_table(("output", "error", "largest difference"), outputs))
        if self.float32_nodes:
            counts = [(op, str(count), why) for op, why, count in self.float32_nodes]
            sections.append(text_table(("float32", "nodes", "why"), counts))
        return "\n\n".join(sections)


def _weight_errors(weight: RoundedWeight) -> tuple[float, float]:
    """Return the weight error and the layer error; -1 stands for None."""
    return weight.weight_error, -1.0 if weight.layer_error is None else weight.layer_error


def _format_number(value: float) -> str:
    return "" if value < 0 else f"{value:.3g}"


# -- quantize weights; `max_error` limits the error


def quantize_builder(
    builder: GraphBuilder,
    options: WeightOptions,
    feeds: Mapping[str, Any] | None,
    max_error: float | None,
    record: RewriteRecord,
) -> WeightReport:
    """Quantize the weights of a graph in place, except those that ``max_error`` excludes.

    ``feeds`` are the example inputs; without them, nothing is measured. Raises ExportError if
    ``max_error`` cannot be met, or is given without feeds.
    """
    bytes_before = _initializer_bytes(builder)
    quantized: dict[tuple[str, bool], QuantizedTensor] = {}
    excluded: tuple[str, ...] = ()
    errors: dict[str, float] = {}
    ranges: Mapping[str, float] = {}
    outputs: tuple[OutputError, ...] = ()
    all_quantized = None
    if feeds is not None:
        trial = _QuantizationTrial(builder, options, feeds, quantized)
        all_quantized, errors, outputs = trial.quantize_all()
        ranges = trial.ranges
        if max_error is not None:
            excluded, outputs = trial.fit_limit(max_error, errors, outputs)
    elif max_error is not None:
        raise ExportError("max_error needs example inputs to measure the error: give args")
    final_options = options.without(excluded) if excluded else options
    run = _round_graph(builder, final_options, record, quantized, ranges)
    reported_run = run if all_quantized is None else all_quantized
    nodes = _count_readers(builder, run)
    weights = _report_rows(reported_run, excluded, errors, run)
    return WeightReport(
        final_options,
        weights,
        outputs,
        max_error,
        bytes_before,
        _initializer_bytes(builder),
        nodes,
        tuple((op, why, count) for (op, why), count in sorted(run.float32_nodes.items())),
    )


def _round_graph(
    graph: GraphBuilder,
    options: WeightOptions,
    record: RewriteRecord,
    quantized: dict[tuple[str, bool], QuantizedTensor],
    ranges: Mapping[str, float],
) -> QuantizationRun:
    """Quantize the weights of a graph, and make a float16 graph of it, as the options say."""
    run = QuantizationRun(options)
    if options.has_codes:
        run = quantize_weights(graph, options, record, quantized)
    if options.is_half:
        convert_to_float16(graph, options, ranges, run)
    return run


def _report_rows(
    run: QuantizationRun,
    excluded: Sequence[str],
    errors: Mapping[str, float],
    final_run: QuantizationRun,
) -> tuple[RoundedWeight, ...]:
    """Return a row for each weight of ``run``; ``max_error`` keeps those of ``excluded`` in float.

    ``errors`` has the layer error of each measured weight. ``final_run`` is that of the model.
    """
    limit = "the limit max_error"
    halves = {item.name: item.error for item in final_run.rounded.values() if item.bits == 16}
    return (
        *(
            RoundedWeight(weight.name, weight.shape, 16, halves[weight.name], None, limit)
            if weight.name in excluded and weight.name in halves
            else RoundedWeight(weight.name, weight.shape, 32, 0.0, 0.0, limit)
            if weight.name in excluded
            else RoundedWeight(
                weight.name, weight.shape, weight.bits, weight.error, errors.get(weight.name)
            )
            for weight in run.rounded.values()
        ),
        *(
            RoundedWeight(weight.name, weight.shape, 32, 0.0, 0.0, weight.why)
            for weight in run.kept.values()
        ),
    )


class _QuantizationTrial:
    """Compares the outputs of quantized copies of a model with the original's on ``feeds``.

    ``quantized`` caches quantized matrices, so that every copy quantizes only new ones.
    """

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
        self.ranges = measure_ranges(builder, self.base, feeds) if options.is_half else {}
        self.names = [output.name for output in self.base.proto.graph.output]
        self.expected: list[torch.Tensor] = []
        self.half_names: set[str] = set()

    def quantize_all(self) -> tuple[QuantizationRun, dict[str, float], tuple[OutputError, ...]]:
        """Quantize all weights; return the run, the layer error by weight, and output errors.

        The results of the original model become ``expected``.
        """
        record = RewriteRecord()
        run, model, builder = self._quantize_copy(self.options, record)
        layers = _find_layers(self.builder, run, record, builder)
        layers += _find_half_layers(self.builder, run, builder)
        inner_names = list(
            dict.fromkeys(name for layer in layers for name in (layer.source, layer.result))
        )
        inner_names = [
            name for name in inner_names if name not in self.feeds and name not in self.names
        ]
        session = make_session(with_outputs(self.base, inner_names))
        results = run_session(session, dict(self.feeds))
        self.expected = results[: len(self.names)]
        values = dict(zip((*self.names, *inner_names), results, strict=True))
        values.update(
            {feed: torch.as_tensor(np.asarray(value)) for feed, value in self.feeds.items()}
        )
        self.half_names = {item.name for item in run.rounded.values() if item.bits == 16}
        return (
            run,
            _compute_layer_errors(layers, model, builder, values),
            self._measure_outputs(model),
        )

    def fit_limit(
        self, limit: float, errors: Mapping[str, float], outputs: tuple[OutputError, ...]
    ) -> tuple[tuple[str, ...], tuple[OutputError, ...]]:
        """Return the weights to keep in float, and the output errors if they are.

        Weights are kept in the order of decreasing layer error; a bisection finds how many. Raises
        ExportError if the error exceeds ``limit`` even if all measured layers are kept.
        """
        order = sorted(errors, key=lambda name: -errors[name])
        if self.options.has_codes:  # weights of float16 cannot be more exact
            order = [name for name in order if name not in self.half_names]
        if _largest_error(outputs) <= limit:
            return (), outputs
        low, high, best = 1, len(order), None
        while low <= high:
            count = (low + high) // 2
            excluded = tuple(order[:count])
            _, model, _ = self._quantize_copy(self.options.without(excluded), RewriteRecord())
            measured = self._measure_outputs(model)
            if _largest_error(measured) <= limit:
                high, best = count - 1, (excluded, measured)
            else:
                low = count + 1
        if best is None:
            raise ExportError(
                f"max_error={limit:g} cannot be met: without quantizing the {len(order)} weights "
                f"of measured layers the error is {_largest_error(measured):.3g}"
            )
        return best

    def _quantize_copy(
        self, options: WeightOptions, record: RewriteRecord
    ) -> tuple[QuantizationRun, LargeModel, GraphBuilder]:
        copy = GraphBuilder(self.base.session_proto(), target=self.builder.target)
        copy.initializers_dict.update(self.base.tensors)
        run = _round_graph(copy, options, record, self.quantized, self.ranges)
        model = copy.to_onnx(large_model=True, external_threshold=1024, optimize=False)
        return run, model, copy

    def _measure_outputs(self, model: LargeModel) -> tuple[OutputError, ...]:
        types = {value.name: value.type.tensor_type.elem_type for value in model.proto.graph.input}
        feeds = {
            name: value.astype(dtypes.to_numpy(types[name])) for name, value in self.feeds.items()
        }
        results = run_session(make_session(model), feeds)
        return tuple(
            OutputError(name, *_relative_error(new, old))
            for name, new, old in zip(self.names, results, self.expected, strict=True)
            if old.dtype in _FLOATS
        )


def _largest_error(outputs: Sequence[OutputError]) -> float:
    return max((output.error for output in outputs), default=0.0)


def _relative_error(new: torch.Tensor, old: torch.Tensor) -> tuple[float, float]:
    """Return norm(new - old) / norm(old), and the largest difference.

    Equal infinities agree, and so do two NaN; any other infinity or NaN is an infinite error.
    """
    new_values, old_values = new.double(), old.double()
    gap = torch.where(
        (new_values == old_values) | (new_values.isnan() & old_values.isnan()),
        0.0,
        (new_values - old_values).abs(),
    )
    gap = gap.nan_to_num(nan=math.inf, posinf=math.inf)
    if not gap.numel():
        return 0.0, 0.0
    norm = old_values[old_values.isfinite()].norm().item()
    error_norm = gap.norm().item()
    return (0.0 if not error_norm else error_norm / norm if norm else math.inf), gap.max().item()


# -- layers


@dataclass(frozen=True)
class _Layer:
    """A node that reads a quantized weight.

    ``weight`` is the weight's name in the state_dict. ``source`` is the node's activation input, a
    value of the unquantized model; ``result``, its result, has the same name in both models.
    """

    weight: str
    source: str
    result: str


def _find_layers(
    builder: GraphBuilder,
    run: QuantizationRun,
    record: RewriteRecord,
    quantized_builder: GraphBuilder,
) -> list[_Layer]:
    """Find the layers outside branches and loops from the weight rules that fired on a copy."""
    names = {name: item.name for name, item in run.rounded.items()}
    layers: dict[str, _Layer] = {}
    for fired in record.fired:
        info = None if fired.graph else builder.values.get(fired.results[0])
        node = None if info is None else info.producer
        if node is None:
            continue  # a node that a rule created is not in the unquantized graph
        for name in node.inputs:
            producer = builder.values[name].producer if name else None
            weight = name if producer is None or not producer.inputs else producer.inputs[0]
            if weight in names:
                source = next(item for item in node.inputs if item and item != name)
                result = _layer_result(builder, node.outputs[0], quantized_builder)
                layers[result] = _Layer(names[weight], source, result)
    return list(layers.values())


def _find_half_layers(
    builder: GraphBuilder, run: QuantizationRun, half_builder: GraphBuilder
) -> list[_Layer]:
    """Find the nodes outside branches and loops that read weights of float16."""
    layers = []
    halves = [(name, item.name) for name, item in run.rounded.items() if item.bits == 16]
    for name, weight in halves:
        for node in builder.uses(name) if builder.has_name(name) else ():
            sources = [x for x in node.inputs if x and x not in builder.initializers_dict]
            result = node.outputs[0]
            if sources and {sources[0], result} <= half_builder.values.keys():
                layers.append(_Layer(weight, sources[0], result))
    return layers


def _layer_result(builder: GraphBuilder, result: str, quantized_builder: GraphBuilder) -> str:
    """Return the result of a layer, or of the bias addition that is fused into its kernel."""
    readers = builder.uses(result)
    if result in quantized_builder.values or len(readers) != 1:
        return result
    return readers[0].outputs[0]


def _compute_layer_errors(
    layers: Sequence[_Layer],
    model: LargeModel,
    graph: GraphBuilder,
    values: Mapping[str, torch.Tensor],
) -> dict[str, float]:
    """Compute the error of layers on the inputs of the original layers, by weight.

    ``model`` and ``graph`` are the quantized model; ``values`` are values of the original one. A
    weight of several layers has the largest of their errors.
    """
    # a result that the quantized graph lacks is inside a fused kernel
    visible_layers = [layer for layer in layers if layer.result in graph.values]
    probe = _extract_subgraph(
        model,
        graph,
        [layer.source for layer in visible_layers],
        [layer.result for layer in visible_layers],
    )
    layer_feeds = {
        _INPUT_PREFIX + layer.source: values[layer.source].to(
            dtypes.to_torch(graph.get_type(layer.source))
        )
        for layer in visible_layers
    }
    names = [value.name for value in probe.proto.graph.output]
    results = (
        dict(zip(names, run_session(make_session(probe), layer_feeds), strict=True))
        if names
        else {}
    )
    errors: dict[str, float] = {}
    for layer in visible_layers:
        error, _ = _relative_error(results[layer.result], values[layer.result])
        errors[layer.weight] = max(errors.get(layer.weight, 0.0), error)
    return errors


def _extract_subgraph(
    model: LargeModel, graph: GraphBuilder, sources: Sequence[str], targets: Sequence[str]
) -> LargeModel:
    """Extract the part of a model that computes ``targets`` from ``sources``, which become inputs.

    The inputs get new names, since a source may also be a target: with targets ``a`` and ``b``,
    where ``b`` is computed from ``a``, the part computes ``a`` and reads the input ``given:a``.
    """
    proto = onnx.ModelProto()
    proto.CopyFrom(model.session_proto())
    producers = {name: node for node in proto.graph.node for name in node.output}
    needed_ids: dict[int, None] = {}
    pending = list(targets)
    while pending:
        node = producers.get(pending.pop())
        if node is not None and id(node) not in needed_ids:
            needed_ids[id(node)] = None
            pending += [name for name in node.input if name not in sources]
    nodes = [node for node in proto.graph.node if id(node) in needed_ids]
    for node in nodes:
        node.input[:] = [_INPUT_PREFIX + name if name in sources else name for name in node.input]
    read_names = {name for node in nodes for name in node.input}
    weights = [item for item in proto.graph.initializer if item.name in read_names]
    inputs = [
        _make_value_info(graph, name, _INPUT_PREFIX + name) for name in dict.fromkeys(sources)
    ]
    outputs = [_make_value_info(graph, name) for name in dict.fromkeys(targets)]
    for field, values in (
        (proto.graph.node, nodes),
        (proto.graph.initializer, weights),
        (proto.graph.input, inputs),
        (proto.graph.output, outputs),
    ):
        copies: list[Any] = [type(item).FromString(item.SerializeToString()) for item in values]
        del field[:]
        field.extend(copies)
    tensors = {
        item.name: model.tensors[item.name] for item in weights if item.name in model.tensors
    }
    return LargeModel(proto, tensors)


def _make_value_info(graph: GraphBuilder, name: str, new_name: str = "") -> onnx.ValueInfoProto:
    return onnx.helper.make_tensor_value_info(new_name or name, graph.get_type(name), None)


# -- statistics of a graph


def _initializer_bytes(builder: GraphBuilder) -> int:
    return sum(map(initializers.nbytes_of, builder.initializers_dict.values()))


def _count_readers(builder: GraphBuilder, run: QuantizationRun) -> dict[str, int]:
    """Count the nodes that read codes, scales or zero points, by operator."""
    code_names = {name for parts in run.codes.values() for name in parts if name}
    code_names |= set(run.packed.values())
    counts: dict[str, int] = {}
    for node in builder.nodes:
        if any(name in code_names for name in node.inputs):
            counts[node.op_type] = counts.get(node.op_type, 0) + 1
    return counts


# -- weights of bfloat16 and float16: unchanged, or in float32 where the graph casts them to it


@dataclass(frozen=True)
class StoredWeights:
    """The result of ``weights="keep"`` or ``weights="float32"`` for a half-precision model.

    Attributes:
        kind: the requested option.
        half_bytes_before: the bytes of bfloat16 and float16 initializers before the change.
        half_bytes_after: the bytes of bfloat16 and float16 initializers after the change.
        bytes_before: the bytes of all initializers before the change.
        bytes_after: the bytes of all initializers after the change.
    """

    kind: Stored
    half_bytes_before: int
    half_bytes_after: int
    bytes_before: int
    bytes_after: int

    def __str__(self) -> str:
        before = f"{self.half_bytes_before / 1e6:,.1f} MB of 16 bits"
        after = f"{self.half_bytes_after / 1e6:,.1f} of 16 bits"
        return (
            f"weights={self.kind!r}: {before} among {self.bytes_before / 1e6:,.1f} MB of weights "
            f"became {after} among {self.bytes_after / 1e6:,.1f}"
        )


def store_half_weights(builder: GraphBuilder, kind: Stored, record: RewriteRecord) -> StoredWeights:
    """Store half-precision weights in float32 in place; for ``"keep"``, only measure them.

    Runs after all other passes.
    """
    half, total = _half_bytes(builder)
    if kind == "float32":
        rewrite_graph(builder, rule_selection.select_rules("half_weight_as_float32"), record)
        builder.remove_unused()
    return StoredWeights(kind, half, _half_bytes(builder)[0], total, _half_bytes(builder)[1])


def _half_bytes(builder: GraphBuilder) -> tuple[int, int]:
    """Return the bytes of half-precision initializers, and of all initializers."""
    half = total = 0
    for value in builder.initializers_dict.values():
        size = int(initializers.nbytes_of(value))
        total += size
        half += size if initializers.dtype_of(value) in HALF_DTYPES else 0
    return half, total
