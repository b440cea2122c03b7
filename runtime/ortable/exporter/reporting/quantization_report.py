"""Quantize weights and measure the error of layers and outputs.

With ``max_error``, a bisection finds which layers need 8 bits in place of 4, or have to stay in
float, so that the error of no output exceeds it. conversion.py calls `quantize_builder` or
`store_half_weights` for ``weights=``.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import onnx
import torch

from ortable import dtypes
from ortable.builder import GraphBuilder
from ortable.errors import ExportError
from ortable.exporter.reporting.calibration import Calibration
from ortable.exporter.reporting.numeric_diff import with_outputs
from ortable.exporter.reporting.sessions import make_session, run_session
from ortable.exporter.reporting.validate import text_table
from ortable.exporter.reporting.value_ranges import measure_ranges
from ortable.ir import initializers
from ortable.ir.casts import HALF_DTYPES
from ortable.ir.proto.large_model import LargeModel
from ortable.passes.float16_conversion import convert_to_float16
from ortable.passes.join_products import join_products
from ortable.passes.quantize_weights import quantize_weights
from ortable.passes.rewrite import rule_selection
from ortable.passes.rewrite.engine import rewrite_graph
from ortable.passes.rewrite.record import RewriteRecord
from ortable.passes.weight_quantization import (
    BITS,
    QuantizationRun,
    QuantizedTensor,
    QuantizedWeight,
    Stored,
    WeightOptions,
)

_INPUT_PREFIX = "given:"  # prefix of the inputs of an extracted subgraph
_LIMIT = "the limit max_error"
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
        why: why the weight has not the bits of the options; empty if it has.
        calibrated: whether inputs of the layer that ``calibration`` computed chose the codes.
    """

    name: str
    shape: tuple[int, ...]
    bits: int
    weight_error: float
    layer_error: float | None = None
    why: str = ""
    calibrated: bool = False


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
        options: the requested options; ``bits`` and ``exclude`` also name the weights to which
            ``max_error`` gives 8 bits, and those that it keeps.
        weights: every selected weight, quantized or not.
        outputs: the errors of floating-point outputs; empty without example inputs.
        max_error: the requested limit of the error of an output, or None.
        bytes_before: the size of the initializers of the unquantized model.
        bytes_after: the size of the initializers of the quantized model.
        nodes: the number of nodes that read quantized weights, by operator; products of the same
            rows, which become one node, count each.
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
        has_calibrated = any(weight.calibrated for weight in self.weights)
        rows = [
            (
                *(item.name, str(list(item.shape)), str(item.bits)),
                *map(_format_number, _weight_errors(item)),
                *([("no", "yes")[item.calibrated]] if has_calibrated else []),
                *([item.why] if has_unquantized else []),
            )
            for item in sorted(self.weights, key=lambda weight: -max(_weight_errors(weight)))
        ]
        headers = ["weight", "shape", "bits", "error of the weight", "of the layer"]
        headers += ["calibrated"] if has_calibrated else []
        headers += ["why"] if has_unquantized else []
        outputs = [
            (item.name, _format_number(item.error), _format_number(item.largest))
            for item in self.outputs
        ]
        limit = "" if self.max_error is None else f", max_error={self.max_error:g}"
        sizes = f"{self.bytes_before / 1e6:,.1f} MB of weights became {self.bytes_after / 1e6:,.1f}"
        bits_counts = Counter(item.bits for item in self.weights)
        kinds = [k for k, bits in BITS.items() if bits_counts[bits] or k == self.options.kind]
        kinds = [kind for kind in kinds if kind != "float16" or not self.options.has_codes]
        of_all = f" of {len(self.weights)} weights are"
        summary = ", ".join(
            f"{bits_counts[BITS[kind]]}{of_all if kind == kinds[0] else ''} {kind}"
            for kind in kinds
        )
        summary += ", float16 else" * self.options.has_float16_rest + limit
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
    calls: Sequence[Mapping[str, Any]] = (),
) -> WeightReport:
    """Quantize the weights of a graph in place, as the options and ``max_error`` say.

    ``feeds`` are the example inputs; without them, nothing is measured. ``calls`` are inputs for
    calibration. Raises ExportError if ``max_error`` cannot be met, or is given without feeds.
    """
    bytes_before = _initializer_bytes(builder)
    outputs: tuple[OutputError, ...] = ()
    if feeds is None:
        if max_error is not None:
            raise ExportError("max_error needs example inputs to measure the error: give args")
        run = _round_graph(builder, QuantizationRun(options), record, {})
        weights = _report_rows(run, run, {}, options)
    else:
        trial = _QuantizationTrial(builder, options, feeds, calls)
        trial.quantize_all()
        first_run = trial.run
        if max_error is not None:
            trial.fit_limit(max_error)
        options, outputs = trial.options, trial.outputs
        run = _round_graph(builder, trial.make_run(options), record, trial.ranges)
        weights = _report_rows(first_run, run, trial.errors, options)
    readers = _count_readers(builder, run)
    join_products(builder)
    return WeightReport(
        options,
        weights,
        outputs,
        max_error,
        bytes_before,
        _initializer_bytes(builder),
        readers,
        tuple((op, why, count) for (op, why), count in sorted(run.float32_nodes.items())),
    )


def _round_graph(
    graph: GraphBuilder, run: QuantizationRun, record: RewriteRecord, ranges: Mapping[str, float]
) -> QuantizationRun:
    """Quantize the weights of a graph, and make a float16 graph of it, as the run's options say."""
    if run.options.has_codes:
        quantize_weights(graph, run, record)
    if run.options.is_half:
        convert_to_float16(graph, run.options, ranges, run)
    return run


def _report_rows(
    first_run: QuantizationRun,
    run: QuantizationRun,
    errors: Mapping[str, float],
    options: WeightOptions,
) -> tuple[RoundedWeight, ...]:
    """Return a row for each weight of ``first_run``; ``max_error`` changed some of them.

    ``errors`` has the layer error of each measured weight. ``run`` is that of the model, with the
    final ``options``.
    """
    final = {weight.name: weight for weight in run.rounded.values()}

    def make_row(first: QuantizedWeight) -> RoundedWeight:
        weight = final.get(first.name)
        if weight is None:
            return RoundedWeight(first.name, first.shape, 32, 0.0, 0.0, _LIMIT)
        error = None if weight.bits == 16 != first.bits else errors.get(first.name)
        why = "" if weight.bits == first.bits else _LIMIT
        return RoundedWeight(
            first.name, weight.shape, weight.bits, weight.error, error, why, weight.calibrated
        )

    return (
        *map(make_row, first_run.rounded.values()),
        *(
            RoundedWeight(weight.name, weight.shape, 32, 0.0, 0.0, weight.why)
            for weight in first_run.kept.values()
        ),
    )


class _QuantizationTrial:
    """Compares the outputs of quantized copies of a model with the original's on ``feeds``.

    ``options`` are those of the latest copy that was measured, ``run`` is its record, ``errors``
    maps its weights to errors of layers, and ``outputs`` are its errors. ``quantized`` caches
    quantized matrices, so that every copy quantizes only new ones.
    """

    run: QuantizationRun
    errors: Mapping[str, float]
    outputs: tuple[OutputError, ...]

    def __init__(
        self,
        builder: GraphBuilder,
        options: WeightOptions,
        feeds: Mapping[str, Any],
        calls: Sequence[Mapping[str, Any]],
    ) -> None:
        self.builder, self.options, self.feeds = builder, options, feeds
        self.quantized: dict[tuple[str, bool, int], QuantizedTensor] = {}
        self.base: LargeModel = builder.to_onnx(
            large_model=True, external_threshold=1024, optimize=False
        )
        self.calibration = None
        if calls:
            self.calibration = Calibration(builder, self.base, calls, options.embeddings)
            self.calibration.check_calls()
        self.ranges = measure_ranges(builder, self.base, feeds) if options.is_half else {}
        self.names = [output.name for output in self.base.proto.graph.output]
        self.expected: list[torch.Tensor] = []
        self.values: dict[str, torch.Tensor] = {}

    def make_run(self, options: WeightOptions) -> QuantizationRun:
        """Return a run over a copy of the graph that uses what earlier runs have quantized."""
        moment_of = None if self.calibration is None else self.calibration.moment_of
        return QuantizationRun(options, tensors=self.quantized, moment_of=moment_of)

    def quantize_all(self) -> None:
        """Quantize and measure all weights; the original model's results become ``expected``."""
        record = RewriteRecord()
        self.run, model, builder = self._quantize_copy(self.options, record)
        layers = self._find_layers(self.run, record, builder)
        inner_names = list(
            dict.fromkeys(name for layer in layers for name in (layer.source, layer.result))
        )
        inner_names = [
            name for name in inner_names if name not in self.feeds and name not in self.names
        ]
        session = make_session(with_outputs(self.base, inner_names))
        results = run_session(session, dict(self.feeds))
        self.expected = results[: len(self.names)]
        self.values = dict(zip((*self.names, *inner_names), results, strict=True))
        self.values.update(
            {feed: torch.as_tensor(np.asarray(value)) for feed, value in self.feeds.items()}
        )
        self.errors = _compute_layer_errors(layers, model, builder, self.values)
        self.outputs = self._measure_outputs(model)

    def fit_limit(self, limit: float) -> None:
        """Change the options so that no output has an error above ``limit``.

        In the order of decreasing layer error, weights of 4 bits get 8; if that is not enough,
        weights stay in float. A bisection finds how many. Raises ExportError if the error exceeds
        ``limit`` even if all measured layers stay.
        """
        if _largest_error(self.outputs) <= limit:
            return
        order = sorted(self.errors, key=lambda name: -self.errors[name])
        bits = {weight.name: weight.bits for weight in self.run.rounded.values()}
        if self.options.has_codes:  # weights of float16 cannot be more exact
            order = [name for name in order if bits[name] != 16]
        small = [name for name in order if bits[name] == 4]
        if self.options.activations == "int8" and self._change_fewest(
            small, lambda options, names: options.with_bits(names, 8), limit
        ):
            return
        if not self._change_fewest(order, WeightOptions.without, limit):
            raise ExportError(
                f"max_error={limit:g} cannot be met: without quantizing the {len(order)} weights "
                f"of measured layers the error is {_largest_error(self.outputs):.3g}"
            )

    def _change_fewest(
        self,
        names: Sequence[str],
        change: Callable[[WeightOptions, Sequence[str]], WeightOptions],
        limit: float,
    ) -> bool:
        """Change the options for the fewest weights, from the first on, that keep the limit.

        If no number of weights keeps the limit, the options change for all; returns False.
        """
        unchanged, low, high = self.options, 1, len(names) + 1
        while low < high:
            count = (low + high) // 2
            options = change(unchanged, names[:count])
            _, model, _ = self._quantize_copy(options, RewriteRecord())
            if _largest_error(self._measure_outputs(model)) <= limit:
                high = count
            else:
                low = count + 1
        self.options = change(unchanged, names[:low])
        self._measure_copy()
        return low <= len(names)

    def _measure_copy(self) -> None:
        """Measure the layers and outputs of a copy with the current options."""
        record = RewriteRecord()
        self.run, model, builder = self._quantize_copy(self.options, record)
        layers = [
            layer
            for layer in self._find_layers(self.run, record, builder)
            if {layer.source, layer.result} <= self.values.keys()
        ]
        self.errors = _compute_layer_errors(layers, model, builder, self.values)
        self.outputs = self._measure_outputs(model)

    def _find_layers(
        self, run: QuantizationRun, record: RewriteRecord, builder: GraphBuilder
    ) -> list[_Layer]:
        layers = _find_layers(self.builder, run, record, builder)
        return layers + _find_half_layers(self.builder, run, builder)

    def _quantize_copy(
        self, options: WeightOptions, record: RewriteRecord
    ) -> tuple[QuantizationRun, LargeModel, GraphBuilder]:
        copy = GraphBuilder(self.base.session_proto(), target=self.builder.target)
        copy.initializers_dict.update(self.base.tensors)
        run = _round_graph(copy, self.make_run(options), record, self.ranges)
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
