"""Format the report of a conversion: steps, time, contents, comparison with eager.

`report_text` returns Markdown, also for a failed conversion, and `export_facts` the data for JSON.
Called by conversion.py and program.py.
"""

from __future__ import annotations

import json
import math
import platform
import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import onnx
import torch
from onnx import ModelProto, ValueInfoProto

from ortable import dtypes
from ortable.compat.torch import HigherOrderOperator, OpOverload
from ortable.exporter.frontend.export_request import PHASES, ExportRecord, Program, Request
from ortable.exporter.reporting.example_sizes import named_dim_ranges
from ortable.exporter.reporting.metadata import package_version
from ortable.exporter.reporting.numeric_diff import EXACT, tolerance_of
from ortable.exporter.reporting.quantization_report import StoredWeights, WeightReport
from ortable.exporter.reporting.sessions import proto_of
from ortable.exporter.reporting.validate import COMPARISON_HEADS, Comparison, markdown_table
from ortable.interpreter.diagnostics.origin import source_line
from ortable.interpreter.operator_cost import find_cost_ratio
from ortable.ir import initializers

TableRows = list[tuple[str, ...]]

_ASSERTIONS_NOTE = (
    "ONNX has no operator that raises: the model computes a result even if one of these fails."
)
_SLOW_RATIO = 10
_SLOW_NOTE = (
    "Time of their nodes in ONNX Runtime on the CPU, divided by the time of torch's kernels, at "
    "large sizes; docs/operator-cost.md has the measurements."
)


def report_text(
    request: Request, program: Program | None, model: Any, error: Exception | None = None
) -> str:
    """Return the report as Markdown; an early ``error`` leaves ``program`` and ``model`` None."""
    record = request.record
    outcome = "failed" if error is not None else "done"
    sections = [f"# Export of {type(request.model).__name__}: {outcome}", _version_table()]
    if error is not None:
        lines = "".join(traceback.format_exception_only(error)).strip()
        sections += ["## Error", f"```\n{lines}\n```"]
    sections += ["## Seconds", _seconds_table(record)]
    steps = [f"strategy: {record.strategy or 'the graph was given'}", *record.steps]
    sections += ["## How torch made the graph", _bullet_list(steps)]
    if record.guards:
        guards = [guard.one_line() for guard in record.guards]
        sections += ["## Sizes that the model holds for", _bullet_list(guards)]
    if record.assertions:
        sections += [
            "## Assertions that the model does not make",
            _ASSERTIONS_NOTE,
            _bullet_list(record.assertions),
        ]
    if model is not None:
        proto = proto_of(model)
        sections += ["## Model", _value_table(proto)]
        ranges = named_dim_ranges(program) if program is not None else []
        if ranges:  # ONNX models cannot store these bounds
            rows = [tuple("" if bound is None else str(bound) for bound in row) for row in ranges]
            sections.append(markdown_table(("dimension", "smallest", "largest"), rows))
        domains = [(entry.domain or "ai.onnx", str(entry.version)) for entry in proto.opset_import]
        sections += [f"{_count_text(model)}.", markdown_table(("domain", "opset"), domains)]
        sections += ["## ONNX operators", _operator_table("nodes", onnx_operators(proto))]
    if program is not None:
        sections += ["## Torch operators", _operator_table("calls", torch_operators(program))]
        slow_rows = slow_calls(program)
        if slow_rows:
            sections += [
                "## Slow operators",
                _SLOW_NOTE,
                markdown_table(("operator", "times", "at"), slow_rows),
            ]
    if record.weights is not None:
        sections += ["## Weights", f"```\n{record.weights}\n```"]
    if record.comparisons:
        sections += ["## Comparison with eager", _tolerance_text(record)]
        sections += [
            markdown_table(
                COMPARISON_HEADS, [comparison.row() for comparison in record.comparisons]
            )
        ]
    return "\n\n".join(sections) + "\n"


@dataclass(frozen=True, repr=False)
class ExportReport:
    """The report of an export, `OnnxProgram.report`. Its text is Markdown.

    Attributes:
        request: the checked arguments.
        program: torch's program.
        model: a ModelProto or LargeModel.
    """

    request: Request
    program: Program
    model: Any

    @property
    def record(self) -> ExportRecord:
        """The log of the conversion, with details of each rewrite."""
        return self.request.record

    @property
    def strategy(self) -> str:
        """How torch captured the graph; empty if the caller gave a graph."""
        return self.record.strategy

    @property
    def steps(self) -> list[str]:
        """Notes on changes to the graph before the conversion, and on strategies that failed."""
        return list(self.record.steps)

    @property
    def seconds(self) -> dict[str, float]:
        """Wall-clock seconds by phase."""
        return dict(self.record.seconds)

    @property
    def guards(self) -> list[str]:
        """Conditions on sizes under which the model equals the module."""
        return [guard.one_line() for guard in self.record.guards]

    @property
    def assertions(self) -> list[str]:
        """Assertions of forward that the model does not check."""
        return list(self.record.assertions)

    @property
    def rewrites(self) -> dict[str, int]:
        """How often each rewrite rule fired."""
        return self.record.rewrites.counts()

    @property
    def weights(self) -> WeightReport | None:
        """Report of the quantization by ``weights=``; None if it quantized nothing."""
        report = self.record.weights
        return report if isinstance(report, WeightReport) else None

    @property
    def stored_weights(self) -> StoredWeights | None:
        """Sizes of the weights with ``weights="keep"`` or ``"float32"``; None otherwise."""
        report = self.record.weights
        return report if isinstance(report, StoredWeights) else None

    @property
    def comparisons(self) -> list[Comparison]:
        """Results of the comparison with eager that ``validate`` requested; empty without it."""
        return list(self.record.comparisons)

    @property
    def torch_operators(self) -> dict[str, int]:
        """Number of calls in the torch graph and its inner graphs, by operator."""
        return dict(torch_operators(self.program))

    @property
    def onnx_operators(self) -> dict[str, int]:
        """Number of nodes of the model and its local functions, by operator."""
        return dict(onnx_operators(proto_of(self.model)))

    def to_json(self) -> str:
        """Return JSON about the model, strategy, seconds, rewrites, guards and comparisons."""
        return json.dumps(export_facts(self.record, self.model), indent=2)

    def __str__(self) -> str:
        return report_text(self.request, self.program, self.model)

    def __repr__(self) -> str:
        seconds = sum(self.seconds.values())
        return (
            f"ExportReport({self.strategy or 'graph given'}, {seconds:.2f} s, "
            f"{sum(self.onnx_operators.values())} nodes; print it to see the whole report)"
        )


def export_facts(record: ExportRecord, model: Any) -> dict[str, Any]:
    """Return the facts about an exported model, a ModelProto or LargeModel, for JSON."""
    differences = [
        comparison.largest for comparison in record.comparisons if comparison.largest is not None
    ]
    return {
        **graph_facts(proto_of(model)),
        "strategy": record.strategy,
        "seconds": dict(record.seconds),
        "rewrites": dict(record.rewrites.counts()),
        "guards": [guard.one_line() for guard in record.guards],
        "largest_difference": max(differences, default=None),
        "comparisons": [_comparison_facts(comparison) for comparison in record.comparisons],
    }


def _comparison_facts(comparison: Comparison) -> dict[str, Any]:
    facts = {name: getattr(comparison, name) for name in ("inputs", "output", "dtype", "shape")}
    largest = comparison.largest
    facts["largest_difference"] = (
        largest if largest is None or math.isfinite(largest) else str(largest)
    )
    return {**facts, "problem": comparison.problem}


def graph_facts(proto: ModelProto) -> dict[str, Any]:
    """Return opset, number of nodes, inputs and outputs; in shapes, dynamic sizes are names."""
    inputs, outputs = (
        [
            {
                "name": value.name,
                "type": dtypes.name(value.type.tensor_type.elem_type),
                "shape": _value_shape(value),
            }
            for value in values
        ]
        for values in (proto.graph.input, proto.graph.output)
    )
    opset = next(entry.version for entry in proto.opset_import if entry.domain in ("", "ai.onnx"))
    return {
        "opset": opset, "nodes": len(proto.graph.node), "inputs": inputs, "outputs": outputs
    }  # fmt: skip


def _version_table() -> str:
    rows = [
        ("ortable", package_version()),
        ("torch", torch.__version__),
        ("onnx", onnx.__version__),
        ("onnxruntime", _runtime_version()),
        ("Python", platform.python_version()),
    ]
    return markdown_table(("package", "version"), rows)


def _runtime_version() -> str:
    import onnxruntime

    return str(onnxruntime.__version__)


def _seconds_table(record: ExportRecord) -> str:
    total = sum(record.seconds.values())
    rows: TableRows = []
    for phase in PHASES:
        if phase in record.seconds:
            seconds = record.seconds[phase]
            rows.append((phase, f"{seconds:.3f}", f"{100 * seconds / max(total, 1e-9):.0f} %"))
    return markdown_table(("phase", "seconds", "share"), [*rows, ("all", f"{total:.3f}", "")])


def _bullet_list(lines: Sequence[str]) -> str:
    return "\n".join(f"- {line}" for line in lines)


def _value_table(proto: onnx.ModelProto) -> str:
    rows: TableRows = []
    for role, values in (("input", proto.graph.input), ("output", proto.graph.output)):
        for value in values:
            dtype = onnx.TensorProto.DataType.Name(value.type.tensor_type.elem_type).lower()
            rows.append((role, value.name, dtype, _shape_text(value)))
    return markdown_table(("", "name", "dtype", "shape"), rows)


def _tolerance_text(record: ExportRecord) -> str:
    """Describe the version of ONNX Runtime, and the tolerances of the dtypes that were compared."""
    compared = {comparison.dtype for comparison in record.comparisons}
    accepted = [
        f"{dtype} within {tolerance.atol:g} + {tolerance.rtol:g} * abs(eager)"
        for dtype in sorted(compared)
        if (tolerance := tolerance_of(dtype)) != EXACT
    ]
    exact = "dtypes, shapes, integers and booleans are equal"
    if record.accepted is not None:
        accepted = [f"floats within {record.accepted:g}"] * bool(accepted)
    return f"With onnxruntime {_runtime_version()}; {'; '.join([*accepted, exact])}."


def onnx_operators(proto: onnx.ModelProto) -> Counter[str]:
    """Count nodes by operator, with those of local functions, without branches and loop bodies."""
    counts: Counter[str] = Counter()
    for nodes in (proto.graph.node, *(function.node for function in proto.functions)):
        counts.update(f"{n.domain}::{n.op_type}" if n.domain else n.op_type for n in nodes)
    return counts


def torch_operators(program: Program) -> Counter[str]:
    """Count calls by operator, including those of inner graphs."""
    return Counter(_target_name(node.target) for node in _all_calls(program))


def slow_calls(program: Program) -> TableRows:
    """Return (operator, ratio, source line) of calls ten or more times slower than in torch."""
    rows: TableRows = []
    for node in _all_calls(program):
        ratio = find_cost_ratio(node)
        if ratio is not None and ratio >= _SLOW_RATIO:
            rows.append((_target_name(node.target), str(ratio), str(source_line(node) or "")))
    return rows


def _all_calls(program: Program) -> Iterator[torch.fx.Node]:
    for module in program.graph_module.modules():
        if isinstance(module, torch.fx.GraphModule):
            yield from (node for node in module.graph.nodes if node.op.startswith("call_"))


def _target_name(target: Any) -> str:
    if isinstance(target, (OpOverload, HigherOrderOperator)):
        return target.name()
    return target if isinstance(target, str) else getattr(target, "__qualname__", str(target))


def _operator_table(count_header: str, counts: Counter[str]) -> str:
    rows = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return markdown_table(
        ("operator", count_header), [(name, str(number)) for name, number in rows]
    )


# -- a model in a few lines

_MAX_LISTED_VALUES = 8  # of the inputs, and of the outputs


def describe_model(model: Any, ranges: Sequence[tuple[str, int | None, int | None]] = ()) -> str:
    """Return the text of ``repr(program)``; ``ranges`` is the result of `named_dim_ranges`."""
    proto = proto_of(model)
    inputs, outputs = list(proto.graph.input), list(proto.graph.output)
    width = max(
        (
            len(value.name)
            for value in (*inputs[:_MAX_LISTED_VALUES], *outputs[:_MAX_LISTED_VALUES])
        ),
        default=0,
    )
    lines = [f"OnnxProgram {proto.graph.name}, {_opset_text(proto)}"]
    lines += _value_lines("inputs", inputs, width)
    lines += _value_lines("outputs", outputs, width)
    bounds = [
        f"{name} from {lower}" if upper is None else f"{name} {lower or 1} to {upper}"
        for name, lower, upper in ranges
        if (lower or 0) > 1 or upper is not None
    ]
    if bounds:
        lines.append(f"  {'sizes':<8} {', '.join(dict.fromkeys(bounds))}")
    lines.append(f"  {'graph':<8} {_count_text(model)}")
    return "\n".join(lines)


def value_text(value: ValueInfoProto) -> str:
    """Return the type and shape of a value: ``float32[batch, 3]``."""
    return f"{dtypes.name(value.type.tensor_type.elem_type)}{_shape_text(value)}"


def _shape_text(value: ValueInfoProto) -> str:
    return f"[{', '.join(map(str, _value_shape(value)))}]"


def _value_shape(value: ValueInfoProto) -> list[str | int]:
    """Return the sizes of a value; a dynamic dimension is its name."""
    return [dim.dim_param or dim.dim_value for dim in value.type.tensor_type.shape.dim]


def _opset_text(proto: ModelProto) -> str:
    texts = [f"{entry.domain or 'opset'} {entry.version}" for entry in proto.opset_import]
    return ", ".join(sorted(texts, key=lambda text: not text.startswith("opset ")))


def _value_lines(title: str, values: Sequence[ValueInfoProto], width: int) -> list[str]:
    lines = [f"{value.name:<{width}}  {value_text(value)}" for value in values[:_MAX_LISTED_VALUES]]
    if len(values) > _MAX_LISTED_VALUES:
        lines.append(f"... and {len(values) - _MAX_LISTED_VALUES} more")
    heads = [title, *[""] * len(lines)]
    return [f"  {head:<8} {line}" for head, line in zip(heads, lines or ["none"], strict=False)]


def _count_text(model: Any) -> str:
    proto = proto_of(model)
    tensors = getattr(model, "tensors", {})
    total = sum(
        initializers.nbytes_of(tensors.get(tensor.name, tensor))
        for tensor in proto.graph.initializer
    )
    parts = [
        _pluralize(len(proto.graph.node), "node"),
        f"{_pluralize(len(proto.graph.initializer), 'initializer')} of {_format_bytes(total)}",
    ]
    external_count = len(tensors) + len(getattr(model, "nested", {}))
    if external_count:
        parts.append(f"{external_count} of them outside of the ModelProto")
    if proto.functions:
        parts.append(_pluralize(len(proto.functions), "local function"))
    return ", ".join(parts)


def _pluralize(count: int, noun: str) -> str:
    return f"{count:,} {noun}" + ("" if count == 1 else "s")


def _format_bytes(count: int) -> str:
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return _pluralize(count, "byte")
