"""Diagnose a mismatch: which spec entry, rewrite rule, function, kernel or optimizer causes it.

The diagnosis converts the graph again without each candidate, until the result equals eager's.
`difference.py` and `exports.py` receive a `Difference` with a minimal repro.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import onnx
import torch
from onnx import NodeProto
from torch.fx import Node

from ortable.exporter.reporting.numeric_diff import NumericDiff, intermediate_results
from ortable.exporter.reporting.sessions import proto_of
from ortable.interpreter.diagnostics.origin import source_line
from ortable.ir.node import REWRITES_KEY
from ortable.ir.proto.walk import graphs_inside

from ..arrays import describe_value, format_node, to_numpy, to_torch
from ..reference import ExtendedReferenceEvaluator
from .graphs import DecompositionMismatch
from .minimizer import OPERATOR_AGREES, Differs, MinimalRepro, minimize
from .mismatch import Comparator, ConvertedGraph, Mismatch, find_producer, operator_name
from .records import Culprit, Difference, GraphKind
from .source_locations import (
    SourceLocation,
    format_module,
    locate_function,
    locate_rule,
    resolve_alias,
    where_is,
)


@dataclass(frozen=True)
class Cause:
    """The culprit of a mismatch, with its name and location."""

    culprit: Culprit
    name: str
    location: SourceLocation | None = None


def find_cause(mismatch: Mismatch, comparator: Comparator) -> Cause:
    """Find the cause of a mismatch."""
    if mismatch.stage == "host":
        return Cause("preparation", "of torch's graph before conversion")
    if mismatch.stage == "session":
        return _diagnose_session(mismatch, comparator)
    if mismatch.stage == "passes":
        return _diagnose_transforms(mismatch, comparator) or _diagnose_passes(mismatch, comparator)
    return _diagnose_entry(mismatch, comparator)


def _diagnose_session(mismatch: Mismatch, comparator: Comparator) -> Cause:
    import onnxruntime

    source = mismatch.source
    settings = source.settings
    if settings is None or isinstance(settings, Mapping):
        level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        changed = {**(settings or {}), "graph_optimization_level": level}
        results = source.run_in_session(mismatch.converted, changed)
        if (
            comparator.compute_gap(
                mismatch.gap.expected, results[source.output_nodes().index(mismatch.node)]
            )
            is None
        ):
            return Cause("optimizer", "graph_optimization_level")
    return Cause("session", "session_options")


def _diagnose_transforms(mismatch: Mismatch, comparator: Comparator) -> Cause | None:
    """Find the transform of the user without which the result equals eager's."""
    source = mismatch.source
    transforms = source.transforms
    if not transforms or not _fixes_mismatch(
        mismatch, comparator, source.convert_variant(transforms=())
    ):
        return None
    culprits = [
        transform
        for transform in transforms
        if _fixes_mismatch(
            mismatch,
            comparator,
            source.convert_variant(transforms=[t for t in transforms if t is not transform]),
        )
    ]
    function = (culprits or transforms)[0]
    name = getattr(function, "__qualname__", type(function).__name__)
    return Cause("transform", name, locate_function(function))


def _diagnose_passes(mismatch: Mismatch, comparator: Comparator) -> Cause:
    """Find the rule without which the result equals eager's.

    Rules that made the nodes of the result are tried first. Before that, a new conversion that
    equals eager shows that the exported model was changed or is old.
    """
    source = mismatch.source
    if _fixes_mismatch(mismatch, comparator, source.convert_variant()):
        return Cause("model", "the exported model")
    rules = source.active_rules()
    for name in dict.fromkeys([*_find_rules(mismatch), *mismatch.converted.rewrites]):
        if name in rules and _fixes_mismatch(
            mismatch, comparator, source.convert_variant(without=name)
        ):
            return Cause("rule", name, locate_rule(rules[name], source.rule_files))
    return Cause("pass", "the passes of option optimize")


def _find_rules(mismatch: Mismatch) -> list[str]:
    """List the rules that made the nodes between agreeing results and the mismatch, last first."""
    rules: list[str] = []
    nodes = find_computing_nodes(mismatch)
    for proto in reversed(nodes):
        metadata = {entry.key: entry.value for entry in proto.metadata_props}
        rules += metadata.get(REWRITES_KEY, "").split(", ") if REWRITES_KEY in metadata else []
    return list(dict.fromkeys(rules))


def _fixes_mismatch(mismatch: Mismatch, comparator: Comparator, converted: ConvertedGraph) -> bool:
    """Whether the result equals eager's in `converted`, another conversion of the graph."""
    values, _ = mismatch.source.compute_values(converted, mismatch.node.name)
    return bool(values) and all(
        comparator.compute_gap(mismatch.gap.expected, value) is None for value in values.values()
    )


def _diagnose_entry(mismatch: Mismatch, comparator: Comparator) -> Cause:
    """Blame the entry, or the kernel if the reference evaluator computes eager's result."""
    kernel = _find_wrong_kernel(mismatch, comparator)
    operator = operator_name(mismatch.node)
    if kernel is not None:
        return Cause("kernel", kernel, where_is(operator, case_number(mismatch)))
    entry = resolve_alias(operator)
    return Cause("entry", entry, where_is(entry, case_number(mismatch)))


def case_number(mismatch: Mismatch) -> int:
    """Return the number of the case that converted the node; 0 if its entry has one case."""
    case = mismatch.converted.cases.get(find_producer(mismatch.node).name, "")
    return int(case.rpartition("/")[2] or 0)


def _find_wrong_kernel(mismatch: Mismatch, comparator: Comparator) -> str | None:
    """Find the ONNX operator whose kernel is wrong.

    Return None if the reference evaluator differs from eager too, or cannot run the nodes.
    """
    nodes = find_computing_nodes(mismatch)
    feeds = mismatch.source.make_feeds(mismatch.converted)
    feeds |= {name: to_numpy(value) for name, value in mismatch.agreed.items()}
    result_names = [name for proto in nodes for name in proto.output if name]
    try:
        computed = intermediate_results(
            mismatch.converted.model, mismatch.source.make_feeds(mismatch.converted), result_names,
            mismatch.source.providers,
        )  # fmt: skip
        reference = {
            name: to_torch(values[name])
            for proto, values in ExtendedReferenceEvaluator(
                _make_partial_model(mismatch, nodes)
            ).steps(feeds)
            for name in proto.output
            if name
        }
    except Exception:  # inconclusive: evaluators raise errors of many types
        return None
    if comparator.compute_gap(mismatch.gap.expected, reference[mismatch.result]) is not None:
        return None
    for proto in nodes:
        for name in filter(None, proto.output):
            if comparator.compute_gap(reference[name], computed[name]) is not None:
                return f"{proto.domain}.{proto.op_type}".lstrip(".")
    return None


def _make_partial_model(mismatch: Mismatch, nodes: Sequence[NodeProto]) -> onnx.ModelProto:
    """Make a model of `nodes` for the reference evaluator, which needs no input types."""
    model = onnx.ModelProto()
    model.CopyFrom(proto_of(mismatch.converted.model))
    graph = model.graph
    del graph.node[:], graph.output[:]
    graph.node.extend(nodes)
    graph.output.extend([onnx.ValueInfoProto(name=mismatch.result)])
    produced = {name for proto in nodes for name in proto.output}
    declared = {value.name for value in (*graph.input, *graph.initializer)}
    graph.input.extend(
        onnx.ValueInfoProto(name=name)
        for name in mismatch.agreed
        if name not in produced | declared
    )
    return model


def find_computing_nodes(mismatch: Mismatch) -> list[NodeProto]:
    """Find the ONNX nodes that compute the result from agreeing results and inputs."""
    nodes = proto_of(mismatch.converted.model).graph.node
    producers = {name: proto for proto in nodes for name in proto.output if name}
    selected, stack = set(), [mismatch.result]
    while stack:
        name = stack.pop()
        proto = producers.get(name)
        if proto is None or (name in mismatch.agreed and name != mismatch.result):
            continue
        key = proto.output[0], proto.op_type
        if key not in selected:
            selected.add(key)
            stack.extend(_input_names(proto))
    return [node for node in nodes if node.output and (node.output[0], node.op_type) in selected]


def _input_names(proto: NodeProto) -> Iterator[str]:
    """Yield the names that a node reads, including those of its subgraphs."""
    yield from filter(None, proto.input)
    for graph in graphs_inside(proto):
        for inner in graph.node:
            yield from _input_names(inner)
        yield from (value.name for value in graph.output)


# -- records


@dataclass(frozen=True)
class ReproSettings:
    """How a repro script runs its operator.

    Attributes:
        differs: a predicate: whether a function differs between eager and ortable.
        options: options of torch.compile.
        exporting: arguments of `ortable.export`, in place of torch.compile.
        complete: whether `options` are all options of the compilation.
    """

    differs: Differs
    options: Mapping[str, Any] = field(default_factory=dict)
    exporting: Mapping[str, Any] | None = None
    complete: bool = True


def describe_mismatch(
    mismatch: Mismatch, comparator: Comparator, settings: ReproSettings
) -> Difference:
    """Describe a mismatch with its cause and a script."""
    cause = find_cause(mismatch, comparator)
    names = mismatch.converted.fx_names
    agreed = {names[name]: value for name, value in mismatch.agreed.items() if name in names}
    values = mismatch.source.torch_values(agreed)
    repro = _make_repro(
        mismatch.node, values, mismatch.gap, mismatch.source.kind, comparator, settings
    )
    if (
        cause.culprit == "entry"
        and settings.complete
        and (repro.why == OPERATOR_AGREES or repro.operators > 1)
    ):
        cause = replace(cause, culprit="accumulated")
    nodes = find_computing_nodes(mismatch) if mismatch.result else []
    return _make_difference(
        mismatch.source.kind, cause, mismatch.gap, repro,
        case=case_number(mismatch),
        computed_by=tuple(map(format_node, nodes)),
        **_node_fields(mismatch.node, values),
    )  # fmt: skip


def describe_decomposition(
    mismatch: DecompositionMismatch,
    location: SourceLocation,
    comparator: Comparator,
    settings: ReproSettings | None,
) -> Difference:
    """Describe an operator whose decomposition has another result than the operator.

    The description has no script if `settings` is None.
    """
    node, values, gap = mismatch.node, mismatch.values, mismatch.gap
    repro = (
        _make_repro(node, values, gap, mismatch.kind, comparator, settings)
        if settings is not None
        else MinimalRepro()
    )
    cause = Cause("decomposition", operator_name(node), location)
    return _make_difference(mismatch.kind, cause, gap, repro, **_node_fields(node, values))


def describe_capture(name: str, gap: NumericDiff, kind: GraphKind, tracer: str) -> Difference:
    """Describe a result that differs in the graph that `tracer` captured, before conversion."""
    return _make_difference(kind, Cause("capture", tracer), gap, MinimalRepro(), node=name)


def _make_difference(
    kind: GraphKind, cause: Cause, gap: NumericDiff, repro: MinimalRepro, **fields: Any
) -> Difference:
    location = cause.location or SourceLocation("")
    return Difference(
        graph=kind,
        culprit=cause.culprit,
        name=cause.name,
        spec_file=location.file,
        spec_line=location.line,
        what=gap.what,
        largest=gap.largest,
        eager=describe_value(to_numpy(gap.expected)),
        onnx=describe_value(to_numpy(gap.got)),
        script=repro.script,
        tensors=repro.tensors or {},
        **fields,
    )


def _make_repro(
    node: Node,
    values: Mapping[Node, Any],
    gap: NumericDiff,
    kind: str,
    comparator: Comparator,
    settings: ReproSettings,
) -> MinimalRepro:
    source = source_line(find_producer(node))
    return minimize(
        node,
        values,
        settings.differs,
        about=f"Found in the {kind} graph, FX node '{node.name}'"
        + (f", {source}" if source else ""),
        options=settings.options,
        tolerance=comparator.tolerance.of(gap.expected.dtype),
        exporting=settings.exporting,
    )


def _node_fields(node: Node, values: Mapping[Node, Any]) -> dict[str, Any]:
    call_node = find_producer(node)
    return {
        "node": node.name,
        "operator": operator_name(node),
        "module": format_module(call_node),
        "source": str(source_line(call_node) or ""),
        "arguments": tuple(_describe_arguments(call_node, values)),
    }


def _describe_arguments(node: Node, values: Mapping[Node, Any]) -> Iterator[str]:
    for name, value in (*((f"{i}", v) for i, v in enumerate(node.args)), *node.kwargs.items()):
        operand = values.get(value, value) if isinstance(value, Node) else value
        if isinstance(operand, torch.Tensor):
            yield f"{getattr(value, 'name', name)}: {describe_value(to_numpy(operand))}"
        elif isinstance(value, Node):
            yield f"{value.name}: {operand}"
        else:
            yield f"{value}"
