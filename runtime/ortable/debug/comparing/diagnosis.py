"""Why a result differs: the entry of the specs, a rule of rewriting, a function of the user, a
kernel of ONNX Runtime or its optimizers. The graph is converted again without each in turn, until
the result is eager's. In comes what `graphs` found, out comes a `Cause`; called by `difference`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import onnx
import torch
from onnx import NodeProto

from ortable.exporter.account.gaps import intermediate_results
from ortable.exporter.account.sessions import proto_of
from ortable.ir.origins import KEY

from ..arrays import to_numpy, to_torch
from ..reference import ExtendedReferenceEvaluator
from .found import Converted, Found, Measure, operator_of, producer
from .places import Place, meant_by, place_of_rule, where_is
from .records import Culprit


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
        if watch.gap(found.expected, results[source.outputs().index(found.node)]) is None:
            return Cause("optimizer", "graph_optimization_level")
    return Cause("session", "session_options")


def _of_transforms(found: Found, watch: Measure) -> Cause | None:
    """The user's function without which the result is eager's."""
    source = found.source
    given = source.transforms
    if not given or not _heals(found, watch, source.with_transforms(())):
        return None
    alone = [
        each
        for each in given
        if _heals(found, watch, source.with_transforms([x for x in given if x is not each]))
    ]
    function = (alone or given)[0]
    code = getattr(function, "__code__", None)
    place = None if code is None else Place(code.co_filename, code.co_firstlineno)
    return Cause("transform", getattr(function, "__qualname__", repr(function)), place)


def _of_passes(found: Found, watch: Measure) -> Cause:
    """The rule without which the result is eager's; the rules that made the nodes come first."""
    source = found.source
    if _heals(found, watch, source.same_again()):
        return Cause("model", "the exported model")
    rules = source.rules()
    for name in dict.fromkeys([*_rules_behind(found), *found.converted.rewrites]):
        if name in rules and _heals(found, watch, source.without_rule(name)):
            return Cause("rule", name, place_of_rule(rules[name], source.rule_files))
    return Cause("pass", "the passes of option optimize")


def _rules_behind(found: Found) -> list[str]:
    """The rules that made nodes between the results that agree and the one that does not."""
    rules: list[str] = []
    nodes = nodes_behind(proto_of(found.converted.model), found.result, found.agreed)
    for proto in reversed(nodes):
        about = {entry.key: entry.value for entry in proto.metadata_props}
        rules += about.get(KEY, "").split(", ") if KEY in about else []
    return list(dict.fromkeys(rules))


def _heals(found: Found, watch: Measure, converted: Converted) -> bool:
    """Whether the result is eager's in another conversion of the graph."""
    values, _ = found.source.values_of(converted, found.node.name)
    return bool(values) and all(
        watch.gap(found.expected, value) is None for value in values.values()
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
    nodes = nodes_behind(proto_of(found.converted.model), found.result, found.agreed)
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
    if watch.gap(found.expected, reference[found.result]) is not None:
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


def nodes_behind(
    model: onnx.ModelProto, result: str, known: Mapping[str, torch.Tensor]
) -> list[NodeProto]:
    """The ONNX nodes that compute a result from others that are known, and from inputs."""
    made = {name: proto for proto in model.graph.node for name in proto.output if name}
    wanted, stack = set(), [result]
    while stack:
        name = stack.pop()
        proto = made.get(name)
        if proto is None or (name in known and name != result):
            continue
        key = proto.output[0], proto.op_type
        if key not in wanted:
            wanted.add(key)
            stack.extend(_read_by(proto))
    return [
        proto
        for proto in model.graph.node
        if proto.output and (proto.output[0], proto.op_type) in wanted
    ]


def _read_by(proto: NodeProto) -> Iterator[str]:
    """Names that a node reads, in the graphs inside it, too."""
    yield from filter(None, proto.input)
    for attribute in proto.attribute:
        for graph in (*attribute.graphs, *([attribute.g] if attribute.HasField("g") else ())):
            for inner in graph.node:
                yield from _read_by(inner)
            yield from (value.name for value in graph.output)


def texts_of(nodes: Sequence[NodeProto]) -> tuple[str, ...]:
    """ONNX nodes as lines."""
    return tuple(
        f"{proto.domain and proto.domain + '.'}{proto.op_type}({', '.join(proto.input)}) -> "
        f"{', '.join(proto.output)}"
        for proto in nodes
    )
