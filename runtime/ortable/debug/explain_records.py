"""Records that `explain` returns, and their formatting as text, Markdown or JSON.

Text and Markdown have the same sections and lines.
"""

from __future__ import annotations

import dataclasses
import json
import os
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from onnx import ModelProto, NodeProto

from ortable.ir.node import REWRITES_KEY
from ortable.ir.proto.walk import node_positions, nodes_below, nodes_between

_NCHWC = "com.microsoft.nchwc"


@dataclass(frozen=True)
class Fusion:
    """Nodes that ONNX Runtime replaced: the operators `before` by the operators `after`.

    `times` counts equal fusions; `lines` are the lines of the model that the nodes come from.
    """

    before: tuple[str, ...]
    after: tuple[str, ...]
    times: int
    lines: tuple[str, ...]

    def __str__(self) -> str:
        location = f" (at {self.lines[0]}" if self.lines else ""
        more = (
            f" and {format_count(len(self.lines) - 1, 'more line')}" if len(self.lines) > 1 else ""
        )
        times = "" if self.times == 1 else f", {self.times} times"
        return (
            f"{_format_sum(self.before)} became {_format_sum(self.after)}{times}{location}{more}"
            + (")" if location else "")
        )


def find_fusions(before: ModelProto, after: ModelProto) -> tuple[list[Fusion], Counter[str]]:
    """Find fusions, most frequent first, and count the operators of removed nodes.

    Removed nodes were folded to constants, or have no effect.
    """
    producers = {name: node for node in before.graph.node for name in node.output if name}
    shared = {name for node in after.graph.node for name in node.output} & producers.keys()
    shared |= {value.name for value in before.graph.input}
    positions = node_positions(producers)
    fusions: dict[tuple[tuple[str, ...], tuple[str, ...]], list[str]] = {}
    removed: Counter[str] = Counter()
    unmatched = {id(node): node for node in before.graph.node}
    for region in _group_regions(after, shared):
        values = [name for node in region for name in node.output if name in shared]
        replaced = nodes_between(values, producers, positions, shared)
        replaced = [node for node in replaced if unmatched.pop(id(node), None) is not None]
        operators = tuple(map(_op_name, replaced)), tuple(map(_op_name, region))
        remaining = Counter(operators[1])
        if remaining <= Counter(operators[0]):  # the same nodes, some of them removed
            removed += Counter(operators[0]) - remaining
        elif replaced:
            fusions.setdefault(operators, []).append(_first_source_line(replaced))
    rows = [
        Fusion(operators[0], operators[1], len(lines), tuple(dict.fromkeys(filter(None, lines))))
        for operators, lines in fusions.items()
    ]
    removed.update(_op_name(node) for node in unmatched.values())
    return sorted(rows, key=lambda row: -row.times), removed


def _group_regions(model: ModelProto, shared: set[str]) -> list[list[NodeProto]]:
    """Group the nodes that are connected by values that the other graph lacks (not in `shared`)."""
    groups: dict[int, list[NodeProto]] = {}
    group_by_value: dict[str, int] = {}
    for number, node in enumerate(model.graph.node):
        joined = {group_by_value[name] for name in node.input if name in group_by_value}
        members = [member for group in sorted(joined) for member in groups.pop(group)]
        groups[number] = [*members, node]
        for name, group in group_by_value.items():
            if group in joined:
                group_by_value[name] = number
        group_by_value.update({name: number for name in node.output if name and name not in shared})
    return list(groups.values())


def _op_name(node: NodeProto) -> str:
    return f"nchwc.{node.op_type}" if node.domain == _NCHWC else node.op_type


def _first_source_line(nodes: Iterable[NodeProto]) -> str:
    """Return the source line of the first node that has one; empty if there is none."""
    for node in nodes:
        for prop in node.metadata_props:
            if prop.key == "source":
                return str(prop.value)
    return ""


def _format_sum(names: Iterable[str]) -> str:
    """Format ``Gemm + Relu``, ``2 Conv + Relu``, ``nothing``."""
    counts = Counter(names)
    parts = [name if count == 1 else f"{count} {name}" for name, count in counts.items()]
    return " + ".join(parts) or "nothing"


_MAX_FUSIONS = 20  # in the report of a graph


@dataclass(frozen=True)
class GraphBreak:
    """A break between graphs of dynamo.

    Attributes:
        what: the reason of the break, as a summary of one line.
        why: dynamo's explanation of the reason; empty if there is none.
        hints: dynamo's hints how to avoid the break.
        function: the function of the user's line.
        file: the file of the user's line.
        line: the number of the user's line.
        code: the text of the user's line.
        times: the number of equal breaks.
    """

    what: str
    why: str
    hints: tuple[str, ...]
    function: str
    file: str
    line: int
    code: str
    times: int = 1

    @property
    def where(self) -> str:
        """Format the origin: `model.py:12`."""
        return f"{os.path.basename(self.file)}:{self.line}" if self.file else "an unknown location"


@dataclass(frozen=True)
class TorchOperator:
    """An operator that torch runs between sessions of ONNX Runtime, with its lines and the reason.

    `unsupported` means that ortable cannot convert the operator, which is an error with
    `fallback="error"`. `draft` is the YAML of a spec entry to start from if the operator has no
    entry.
    """

    operator: str
    calls: int
    why: str
    lines: tuple[str, ...]
    unsupported: bool
    draft: str = ""


@dataclass(frozen=True)
class GraphExplanation:
    """One compiled graph.

    Attributes:
        number: dynamo's number of the graph, from 1.
        kind: inference, forward or backward.
        function: the function of the model that dynamo traced.
        file: the file of the function.
        line: the line of the function.
        operators: counts of torch's operators.
        cases: by FX node, the numbered case of the spec entry that converted the node, for entries
            with several cases (`{"addmm": "aten::addmm/2"}`; docs/language.md).
        nodes: counts of ONNX nodes.
        session_nodes: counts of nodes that ONNX Runtime runs; None if unknown.
        fusions: nodes that ONNX Runtime replaced.
        removed: counts of nodes that ONNX Runtime removed.
        torch: operators that torch runs.
        providers: execution providers.
        cpu_nodes: counts of nodes that the CPU provider runs, not the requested provider.
        frozen: the number of weights that are constants of a session.
        frozen_bytes: size of these weights.
        not_frozen: why no weight is frozen; empty if some are.
        cache: the cache that had the conversion of each session: "memory", "disk", or "miss".
        seconds: durations of the phases.
        rewrites: how often each rule fired.
        refused: by rule, the reasons why matches were rejected, with their counts; rules that
            fired elsewhere are included.
        steps: the steps of `backend.aot.pipeline` that changed the compilation, with the reason.
        onnx: the ONNX models, one for each session.
    """

    number: int
    kind: str
    function: str
    file: str
    line: int
    operators: Mapping[str, int]
    cases: Mapping[str, str]
    nodes: Mapping[str, int]
    session_nodes: Mapping[str, int] | None
    fusions: tuple[Fusion, ...]
    removed: Mapping[str, int]
    torch: tuple[TorchOperator, ...]
    providers: tuple[str, ...]
    cpu_nodes: Mapping[str, int]
    frozen: int
    frozen_bytes: int
    not_frozen: str
    cache: tuple[str, ...]
    seconds: Mapping[str, float]
    rewrites: Mapping[str, int]
    refused: Mapping[str, Mapping[str, int]]
    steps: Mapping[str, str]
    onnx: tuple[ModelProto, ...] = field(repr=False, compare=False)

    @property
    def where(self) -> str:
        """Format the origin: `Model.forward (model.py:12)`."""
        if not self.function:
            return "a function of torch"
        return f"{self.function} ({os.path.basename(self.file)}:{self.line})"


@dataclass(frozen=True)
class Explanation:
    """How `torch.compile(model, backend="ortable")` compiles one call; prints as text.

    Attributes:
        graph_count: the number of dynamo's graphs.
        graphs: the graphs of dynamo; with gradients, a forward and a backward graph for each.
        breaks: where and why dynamo's graphs end.
        notes: further remarks.
    """

    graph_count: int
    graphs: tuple[GraphExplanation, ...]
    breaks: tuple[GraphBreak, ...]
    notes: tuple[str, ...] = ()

    @property
    def unsupported(self) -> tuple[TorchOperator, ...]:
        """Return the operators that ortable cannot convert, of all graphs."""
        rows = (row for graph in self.graphs for row in graph.torch if row.unsupported)
        return tuple(rows)

    def __str__(self) -> str:
        return as_text(self)

    def to_markdown(self) -> str:
        """Format as a page of Markdown."""
        return as_markdown(self)

    def as_dict(self) -> dict[str, Any]:
        """Convert to dicts, lists and scalars, without the models."""
        graphs = tuple(dataclasses.replace(graph, onnx=()) for graph in self.graphs)
        plain = _to_plain(dataclasses.replace(self, graphs=graphs))
        for graph in plain["graphs"]:
            del graph["onnx"]
        assert isinstance(plain, dict)
        return plain

    def to_json(self, indent: int | None = 2) -> str:
        """Convert `as_dict` to JSON.

        Args:
            indent: spaces per level; None for a single line.
        """
        return json.dumps(self.as_dict(), indent=indent)


def _to_plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value):
        return {f.name: _to_plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(key): _to_plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_to_plain(item) for item in value]
    return value


def as_text(explained: Explanation, named: Sequence[str] = ()) -> str:
    """Format as text, with the lines below a heading indented.

    Args:
        explained: the explanation.
        named: rewrite rules to report even if they did not fire.
    """
    title, *lines = _report_lines(explained, named)
    return "\n".join([title[1], *("  " * depth + line for depth, line in lines)])


def as_markdown(explained: Explanation, named: Sequence[str] = ()) -> str:
    """Format with headings, and with lists instead of indented lines."""
    (_, title), *report = _report_lines(explained, named, "`")
    page = [f"# {title}", ""]
    for depth, line in report:
        page += [f"\n## {line}\n" if depth == 0 else f"{'  ' * (depth - 1)}- {line}"]
    return "\n".join(page) + "\n"


def _report_lines(
    explained: Explanation, named: Sequence[str], quote: str = ""
) -> Iterator[tuple[int, str]]:
    """Yield the title, the headings of graphs and their lines, each with its depth."""
    yield 0, _title_text(explained)
    for number, graph_break in enumerate(explained.breaks, 1):
        head, *more = _break_lines(graph_break)
        yield 1, f"break {number} at {quote}{head}{quote}"
        yield from ((2, line) for line in more)
    yield from ((1, note) for note in explained.notes)
    for graph in explained.graphs:
        yield 0, _graph_head(graph)
        for head, below in _graph_sections(graph, named):
            yield 1, head
            yield from ((2, line) for line in below)


def _title_text(explained: Explanation) -> str:
    breaks = sum(row.times for row in explained.breaks)
    text = f"{format_count(explained.graph_count, 'graph')}, {format_count(breaks, 'graph break')}"
    missing = {row.operator for row in explained.unsupported}
    return f"{text}, {format_count(len(missing), 'unsupported operator')}" if missing else text


def _break_lines(graph_break: GraphBreak) -> list[str]:
    times = f" ({graph_break.times} times)" if graph_break.times > 1 else ""
    head = (
        f"{graph_break.where}: {graph_break.code}{times}"
        if graph_break.code
        else f"{graph_break.where}{times}"
    )
    why = [graph_break.why] if graph_break.why else []
    return [head, graph_break.what, *why, *(f"hint: {hint}" for hint in graph_break.hints)]


def _graph_head(graph: GraphExplanation) -> str:
    operators = format_count(sum(graph.operators.values()), "operator")
    return f"graph {graph.number} ({graph.kind}) of {graph.where}: {operators} of torch"


def _graph_sections(
    graph: GraphExplanation, named: Sequence[str]
) -> Iterator[tuple[str, list[str]]]:
    """Yield the headings of a graph's sections, each with the lines below it."""
    if graph.operators:
        yield _format_counts(graph.operators), []
    if graph.cases:
        yield f"cases of spec entries: {_format_counts(Counter(graph.cases.values()))}", []
    unsupported = [row for row in graph.torch if row.unsupported]
    for title, rows in (
        ("unsupported operators, which torch runs (an error with fallback='error')", unsupported),
        ("placed in torch", [row for row in graph.torch if not row.unsupported]),
    ):
        if rows:
            yield title, [line for row in rows for line in _torch_lines(row)]
    if graph.steps:
        yield f"steps: {'; '.join(f'{name} ({why})' for name, why in graph.steps.items())}", []
    if not graph.onnx:
        yield "torch runs the whole graph", []
        return
    sessions = format_count(len(graph.onnx), "session")
    cached = [hit for hit in graph.cache if hit != "miss"]
    cache_text = f" ({', '.join(cached)} cache)" if cached else ""
    nodes = format_count(sum(graph.nodes.values()), "ONNX node")
    yield f"{nodes} in {sessions}{cache_text}: {_format_counts(graph.nodes)}", []
    yield from _rewrite_sections(graph, named)
    yield from _session_sections(graph)
    if graph.cpu_nodes:
        total = format_count(sum(graph.cpu_nodes.values()), "node")
        listed = _format_counts(graph.cpu_nodes)
        yield f"{total} run in CPUExecutionProvider, not in {graph.providers[0]}: {listed}", []
    if graph.frozen:
        size = f"{graph.frozen_bytes / 1e6:.1f} MB" if graph.frozen_bytes >= 1e5 else ""
        size = size or f"{graph.frozen_bytes} bytes"
        yield f"{format_count(graph.frozen, 'weight')} frozen: constants of the session, {size}", []
    elif graph.not_frozen:
        yield f"no weight frozen: {graph.not_frozen}", []
    phases = ", ".join(f"{phase} {seconds:.3f}" for phase, seconds in graph.seconds.items())
    yield f"seconds: {phases}", []


def _torch_lines(row: TorchOperator) -> list[str]:
    lines = row.lines
    location = f" at {lines[0]}" if lines else ""
    more = f" and {format_count(len(lines) - 1, 'more line')}" if len(lines) > 1 else ""
    calls = format_count(row.calls, "call")
    draft_lines = ["start from:", *row.draft.splitlines()] if row.draft else []
    return [f"{row.operator}, {calls}{location}{more}: {row.why}", *draft_lines]


def _rewrite_sections(
    graph: GraphExplanation, named: Sequence[str]
) -> Iterator[tuple[str, list[str]]]:
    """Yield the rules that fired, with lines of the model, and why matches were rejected."""
    fired = [line for model in graph.onnx for line in fired_lines(graph.rewrites, model)]
    yield rewrite_summary(graph.rewrites), list(dict.fromkeys(fired))
    absent = [rule for rule in named if rule not in graph.rewrites]
    if absent:
        yield f"named rules that did not fire: {', '.join(absent)}", []
    if graph.refused:
        yield "reasons of rejected matches, by rule:", list(refused_lines(graph.refused, named))


def _session_sections(graph: GraphExplanation) -> Iterator[tuple[str, list[str]]]:
    """Yield the fusions and removed nodes of ONNX Runtime's optimizers."""
    if graph.session_nodes is None:
        return
    total = sum(graph.session_nodes.values())
    nodes_text = f"the {format_count(sum(graph.nodes.values()), 'ONNX node')}"
    lines = [str(fusion) for fusion in graph.fusions[:_MAX_FUSIONS]]
    if len(graph.fusions) > _MAX_FUSIONS:
        lines.append(f"and {format_count(len(graph.fusions) - _MAX_FUSIONS, 'more kind')}")
    if graph.removed:
        lines.append(f"removed, constant or without effect: {_format_counts(graph.removed)}")
    if lines:
        optimized_text = format_count(total, "node")
        yield f"ONNX Runtime optimizes {nodes_text} to {optimized_text}", lines
    else:
        yield f"ONNX Runtime runs {nodes_text} unchanged", []


def _format_counts(counts: Mapping[str, int]) -> str:
    pairs = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
    return ", ".join(f"{name} {count}" for name, count in pairs)


_MAX_LOCATIONS = 3
# Reasons that begin with an ONNX result -> the same for several results.
_PLURAL_REASONS = {
    "is read elsewhere": "are read elsewhere",
    "is an output": "are outputs",
    "comes later in the graph": "come later in the graph",
}
_REASON_PATTERN = re.compile(rf"^(\S+) ({'|'.join(_PLURAL_REASONS)})$")


def format_count(number: int, noun: str) -> str:
    """Format a count: ``1 rule``, ``2 rules``."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def rewrite_summary(counts: Mapping[str, int]) -> str:
    """Format the counts of rewrites and of rules: ``3 rewrites by 2 rules``."""
    return f"{format_count(sum(counts.values()), 'rewrite')} by {format_count(len(counts), 'rule')}"


def fired_lines(counts: Mapping[str, int], model: Any) -> Iterator[str]:
    """Yield a line for each rule that fired, with the count and lines of the model."""
    locations = lines_by_rule(model)
    width = max(map(len, counts), default=0)
    for rule, count in sorted(counts.items(), key=lambda pair: (-pair[1], pair[0])):
        counter = locations.get(rule, Counter())
        frequent = [location for location, _ in counter.most_common(_MAX_LOCATIONS)]
        more = (
            f" and {format_count(len(counter) - _MAX_LOCATIONS, 'more line')}"
            if len(counter) > _MAX_LOCATIONS
            else ""
        )
        yield f"{rule:{width}} {count:4}  {', '.join(frequent)}{more}".rstrip()


def lines_by_rule(model: Any) -> dict[str, Counter[str]]:
    """Count, for each rule, the lines of the model that the nodes made by the rule come from.

    A rule that only removes nodes is not listed.
    """
    lines: dict[str, Counter[str]] = {}
    for node, _ in (
        item for graph in (model.graph, *model.functions) for item in nodes_below(graph)
    ):
        metadata = {item.key: item.value for item in node.metadata_props}
        if REWRITES_KEY in metadata:
            location = metadata.get("source") or metadata.get("fx_node", "")
            line = re.match(r".*?:\d+(?=:|$)", location)
            for rule in metadata[REWRITES_KEY].split(", "):
                lines.setdefault(rule, Counter())[line.group() if line else location] += 1
    return lines


def refused_lines(
    refused: Mapping[str, Mapping[str, int]], first: Collection[str] = (), max_rules: int = 5
) -> Iterator[str]:
    """Yield up to ``max_rules`` rules with the reasons why their matches were rejected.

    The rules of ``first`` come first, and are all listed.
    """
    order = sorted(refused, key=lambda rule: rule not in first)
    listed = order[: max(max_rules, sum(rule in first for rule in order))]
    width = max(map(len, listed), default=0)
    for rule in listed:
        yield f"{rule:{width}}  {'; '.join(_merge_reasons(refused[rule]))}"
    if len(order) > len(listed):
        yield f"and {format_count(len(order) - len(listed), 'other rule')}"


def _merge_reasons(reasons: Mapping[str, int]) -> list[str]:
    """Merge reasons that differ only in the ONNX result with which they begin."""
    names: dict[str, list[str]] = {}
    for reason in reasons:
        match = _REASON_PATTERN.match(reason)
        if match:
            names.setdefault(match.group(2), []).append(match.group(1))
        else:
            names.setdefault(reason, [])
    return [
        f"{', '.join(results)} {text if len(results) == 1 else _PLURAL_REASONS[text]}"
        if results
        else text
        for text, results in names.items()
    ]
