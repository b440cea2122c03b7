"""Why a result differs: the entry of the specs, a rule of rewriting, a function of the user, a
kernel of ONNX Runtime or its optimizers. The graph is converted again without each in turn, until
the result is eager's. In comes what `found` found, out comes a `Difference`, with a script of the
operator alone; called by `difference` and `exports`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import onnx
import torch
from onnx import NodeProto
from torch.fx import Node

from ortable.exporter.account.gaps import Gap, intermediate_results
from ortable.exporter.account.sessions import proto_of
from ortable.interpreter.diagnostics.origin import source_line
from ortable.ir.node import REWRITES
from ortable.ir.proto.walk import graphs_inside

from ..arrays import describe, node_text, to_numpy, to_torch
from ..reference import ExtendedReferenceEvaluator
from .alone import AGREES, Alone, Differs, shown_alone
from .found import Converted, Found, Measure, operator_of, producer
from .graphs import Decomposed
from .places import Place, meant_by, module_of, place_of_function, place_of_rule, where_is
from .records import Culprit, Difference, GraphKind


@dataclass(frozen=True)
class Cause:
    """What makes a result differ: what kind of thing, its name, where it stands."""

    culprit: Culprit
    name: str
    place: Place | None = None


def cause_of(found: Found, watch: Measure) -> Cause:
    """What makes the result differ from eager."""
    if found.reached == "host":
        return Cause("preparation", "what is done to torch's graph before it is converted")
    if found.reached == "session":
        return _of_session(found, watch)
    if found.reached == "passes":
        return _of_transforms(found, watch) or _of_passes(found, watch)
    return _of_entry(found, watch)


def _of_session(found: Found, watch: Measure) -> Cause:
    """The graph is right result by result; the session that runs it is not."""
    import onnxruntime

    source = found.source
    settings = source.settings
    if settings is None or isinstance(settings, Mapping):
        level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        changed = {**(settings or {}), "graph_optimization_level": level}
        results = source.in_session(found.converted, changed)
        if watch.gap(found.gap.expected, results[source.outputs().index(found.node)]) is None:
            return Cause("optimizer", "graph_optimization_level")
    return Cause("session", "session_options")


def _of_transforms(found: Found, watch: Measure) -> Cause | None:
    """The user's function without which the result is eager's."""
    source = found.source
    given = source.transforms
    if not given or not _heals(found, watch, source.again(transforms=())):
        return None
    alone = [
        each
        for each in given
        if _heals(found, watch, source.again(transforms=[x for x in given if x is not each]))
    ]
    function = (alone or given)[0]
    name = getattr(function, "__qualname__", type(function).__name__)
    return Cause("transform", name, place_of_function(function))


def _of_passes(found: Found, watch: Measure) -> Cause:
    """The rule without which the result is eager's; the rules that made the nodes come first."""
    source = found.source
    if _heals(found, watch, source.again()):
        return Cause("model", "the exported model")
    rules = source.rules()
    for name in dict.fromkeys([*_rules_behind(found), *found.converted.rewrites]):
        if name in rules and _heals(found, watch, source.again(without=name)):
            return Cause("rule", name, place_of_rule(rules[name], source.rule_files))
    return Cause("pass", "the passes of option optimize")


def _rules_behind(found: Found) -> list[str]:
    """The rules that made nodes between the results that agree and the one that does not."""
    rules: list[str] = []
    nodes = nodes_behind(found)
    for proto in reversed(nodes):
        about = {entry.key: entry.value for entry in proto.metadata_props}
        rules += about.get(REWRITES, "").split(", ") if REWRITES in about else []
    return list(dict.fromkeys(rules))


def _heals(found: Found, watch: Measure, converted: Converted) -> bool:
    """Whether the result is eager's in another conversion of the graph."""
    values, _ = found.source.values_of(converted, found.node.name)
    return bool(values) and all(
        watch.gap(found.gap.expected, value) is None for value in values.values()
    )


def _of_entry(found: Found, watch: Measure) -> Cause:
    """The entry that converted the node, or the kernel where the reference evaluator computes
    eager's result with the same ONNX nodes."""
    kernel = _wrong_kernel(found, watch)
    operator = operator_of(found.node)
    if kernel is not None:
        return Cause("kernel", kernel, where_is(operator, case_of(found)))
    entry = meant_by(operator)
    return Cause("entry", entry, where_is(entry, case_of(found)))


def case_of(found: Found) -> int:
    """Number of the case that converted the node; 0 where its entry has one."""
    taken = found.converted.cases.get(producer(found.node).name, "")
    return int(taken.rpartition("/")[2] or 0)


def _wrong_kernel(found: Found, watch: Measure) -> str | None:
    """The ONNX operator whose kernel is wrong; None where the reference evaluator agrees with ONNX
    Runtime, or cannot run the nodes."""
    nodes = nodes_behind(found)
    feeds = found.source.feeds(found.converted)
    feeds |= {name: to_numpy(value) for name, value in found.agreed.items()}
    names = [name for proto in nodes for name in proto.output if name]
    try:
        computed = intermediate_results(
            found.converted.model, found.source.feeds(found.converted), names,
            found.source.providers,
        )  # fmt: skip
        reference = {
            name: to_torch(known[name])
            for proto, known in ExtendedReferenceEvaluator(_part(found, nodes)).steps(feeds)
            for name in proto.output
            if name
        }
    except Exception:  # whatever an evaluator raises: then it tells nothing
        return None
    if watch.gap(found.gap.expected, reference[found.result]) is not None:
        return None
    for proto in nodes:
        for name in filter(None, proto.output):
            if watch.gap(reference[name], computed[name]) is not None:
                return f"{proto.domain}.{proto.op_type}".lstrip(".")
    return None


def _part(found: Found, nodes: Sequence[NodeProto]) -> onnx.ModelProto:
    """A model of some nodes, for the reference evaluator: its inputs have no types."""
    model = onnx.ModelProto()
    model.CopyFrom(proto_of(found.converted.model))
    graph = model.graph
    del graph.node[:], graph.output[:]
    graph.node.extend(nodes)
    graph.output.extend([onnx.ValueInfoProto(name=found.result)])
    made = {name for proto in nodes for name in proto.output}
    given = {value.name for value in (*graph.input, *graph.initializer)}
    graph.input.extend(
        onnx.ValueInfoProto(name=name) for name in found.agreed if name not in made | given
    )
    return model


def nodes_behind(found: Found) -> list[NodeProto]:
    """The ONNX nodes that compute the result from others that agree, and from inputs."""
    nodes = proto_of(found.converted.model).graph.node
    made = {name: proto for proto in nodes for name in proto.output if name}
    wanted, stack = set(), [found.result]
    while stack:
        name = stack.pop()
        proto = made.get(name)
        if proto is None or (name in found.agreed and name != found.result):
            continue
        key = proto.output[0], proto.op_type
        if key not in wanted:
            wanted.add(key)
            stack.extend(_read_by(proto))
    return [each for each in nodes if each.output and (each.output[0], each.op_type) in wanted]


def _read_by(proto: NodeProto) -> Iterator[str]:
    """Names that a node reads, in the graphs inside it, too."""
    yield from filter(None, proto.input)
    for graph in graphs_inside(proto):
        for inner in graph.node:
            yield from _read_by(inner)
        yield from (value.name for value in graph.output)


# -- in words


@dataclass(frozen=True)
class Way:
    """The way through ortable, for scripts: whether a function differs on it, and its options;
    `complete` where these are all options of the compilation."""

    differs: Differs
    options: Mapping[str, Any] = field(default_factory=dict)
    exporting: Mapping[str, Any] | None = None
    complete: bool = True


def described(found: Found, measure: Measure, way: Way) -> Difference:
    """A result of a graph that differs, with its cause and a script."""
    cause = cause_of(found, measure)
    names = found.converted.fx_names
    given = {names[name]: value for name, value in found.agreed.items() if name in names}
    values = found.source.torch_values(given)
    alone = _alone(found.node, values, found.gap, found.source.kind, measure, way)
    if cause.culprit == "entry" and way.complete and (alone.why == AGREES or alone.operators > 1):
        cause = replace(cause, culprit="accumulated")
    nodes = nodes_behind(found) if found.result else []
    return _difference(
        found.source.kind, cause, found.gap, alone,
        case=case_of(found),
        computed_by=tuple(map(node_text, nodes)),
        **_of_node(found.node, values),
    )  # fmt: skip


def decomposed(found: Decomposed, place: Place, measure: Measure, way: Way | None) -> Difference:
    """An operator that its decomposition computes otherwise; no script without a way to run it."""
    node, values, gap = found.node, found.values, found.gap
    alone = _alone(node, values, gap, found.kind, measure, way) if way is not None else Alone()
    cause = Cause("decomposition", operator_of(node), place)
    return _difference(found.kind, cause, gap, alone, **_of_node(node, values))


def captured(name: str, gap: Gap, kind: GraphKind, by: str) -> Difference:
    """A result of the call that the graphs which `by` made compute otherwise."""
    return _difference(kind, Cause("capture", by), gap, Alone(), node=name)


def _difference(kind: GraphKind, cause: Cause, gap: Gap, alone: Alone, **about: Any) -> Difference:
    place = cause.place or Place("")
    return Difference(
        graph=kind,
        culprit=cause.culprit,
        name=cause.name,
        spec_file=place.file,
        spec_line=place.line,
        what=gap.what,
        largest=gap.largest,
        eager=describe(to_numpy(gap.expected)),
        onnx=describe(to_numpy(gap.got)),
        script=alone.script,
        tensors=alone.tensors or {},
        **about,
    )


def _alone(
    node: Node, values: Mapping[Node, Any], gap: Gap, kind: str, measure: Measure, way: Way
) -> Alone:
    """A script of the operator of a node."""
    source = source_line(producer(node))
    return shown_alone(
        node,
        values,
        way.differs,
        about=f"Found in the {kind} graph, FX node '{node.name}'"
        + (f", {source}" if source else ""),
        options=way.options,
        tolerance=measure.tolerance.of(gap.expected.dtype),
        exporting=way.exporting,
    )


def _of_node(node: Node, values: Mapping[Node, Any]) -> dict[str, Any]:
    """What a difference says of its FX node."""
    made = producer(node)
    return {
        "node": node.name,
        "operator": operator_of(node),
        "module": module_of(made),
        "source": str(source_line(made) or ""),
        "arguments": tuple(_arguments(made, values)),
    }


def _arguments(node: Node, values: Mapping[Node, Any]) -> Iterator[str]:
    """The arguments of the operator in short."""
    for name, value in (*((f"{i}", v) for i, v in enumerate(node.args)), *node.kwargs.items()):
        known = values.get(value, value) if isinstance(value, Node) else value
        if isinstance(known, torch.Tensor):
            yield f"{getattr(value, 'name', name)}: {describe(to_numpy(known))}"
        elif isinstance(value, Node):
            yield f"{value.name}: {known}"
        else:
            yield f"{value}"
