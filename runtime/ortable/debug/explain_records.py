"""The records that `explain` returns, formatted as text, Markdown or JSON.

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

from ortable.ir.node import REWRITES
from ortable.ir.proto.walk import node_positions, nodes_below, nodes_between

_NCHWC = "com.microsoft.nchwc"


@dataclass(frozen=True)
class Fusion:
    """Nodes that ONNX Runtime replaced: the operators `before` by those `after`.

    `times` is how often, `lines` are lines of the model.
    """

    before: tuple[str, ...]
    after: tuple[str, ...]
    times: int
    lines: tuple[str, ...]

    def __str__(self) -> str:
        where = f" (at {self.lines[0]}" if self.lines else ""
        more = f" and {len(self.lines) - 1} more lines" if len(self.lines) > 1 else ""
        times = "" if self.times == 1 else f", {self.times} times"
        return (
            f"{_format_sum(self.before)} became {_format_sum(self.after)}{times}{where}{more}"
            + (")" if where else "")
        )


def find_fusions(before: ModelProto, after: ModelProto) -> tuple[list[Fusion], Counter[str]]:
    """Find fusions, most frequent first, and count the operators of removed nodes.

    Those were folded to constants, or have no effect.
    """
    producers = {name: node for node in before.graph.node for name in node.output if name}
    shared = {name for node in after.graph.node for name in node.output} & producers.keys()
    shared |= {value.name for value in before.graph.input}
    places = node_positions(producers)
    fusions: dict[tuple[tuple[str, ...], tuple[str, ...]], list[str]] = {}
    removed: Counter[str] = Counter()
    unmatched = {id(node): node for node in before.graph.node}
    for region in _group_regions(after, shared):
        values = [name for node in region for name in node.output if name in shared]
        replaced = nodes_between(values, producers, places, shared)
        replaced = [node for node in replaced if unmatched.pop(id(node), None) is not None]
        names = tuple(map(_op_name, replaced)), tuple(map(_op_name, region))
        remaining = Counter(names[1])
        if remaining <= Counter(names[0]):  # the same nodes, without what was constant among them
            removed += Counter(names[0]) - remaining
        elif replaced:
            fusions.setdefault(names, []).append(_first_source_line(replaced))
    rows = [
        Fusion(names[0], names[1], len(lines), tuple(dict.fromkeys(filter(None, lines))))
        for names, lines in fusions.items()
    ]
    removed.update(_op_name(node) for node in unmatched.values())
    return sorted(rows, key=lambda row: -row.times), removed


def _group_regions(model: ModelProto, shared: set[str]) -> list[list[NodeProto]]:
    """Group nodes that are connected by values with new names."""
    groups: dict[int, list[NodeProto]] = {}
    of_value: dict[str, int] = {}
    for number, node in enumerate(model.graph.node):
        joined = {of_value[name] for name in node.input if name in of_value}
        members = [member for group in sorted(joined) for member in groups.pop(group)]
        groups[number] = [*members, node]
        for name, group in of_value.items():
            if group in joined:
                of_value[name] = number
        of_value.update({name: number for name in node.output if name and name not in shared})
    return list(groups.values())


def _op_name(node: NodeProto) -> str:
    return f"nchwc.{node.op_type}" if node.domain == _NCHWC else node.op_type


def _first_source_line(nodes: Iterable[NodeProto]) -> str:
    """Return the first line of the model that one of the nodes comes from."""
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


_MAX_FUSIONS = 20  # fusions in a text


@dataclass(frozen=True)
class GraphBreak:
    """Where dynamo ended a graph: reason, explanation and hints, and the user's line.

    `times` counts equal breaks.
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
    """An operator that torch runs between sessions of ONNX Runtime: where, and why.

    `unsupported` means that ortable cannot convert it: an error with `fallback="error"`. `draft` is
    the YAML of an entry to start from, if the specs have none for it.
    """

    operator: str
    calls: int
    why: str
    lines: tuple[str, ...]
    unsupported: bool
    draft: str = ""


@dataclass(frozen=True)
class GraphExplanation:
    """One compiled graph, the `number`-th of dynamo's.

    Attributes:
        number: dynamo's number, from 1.
        kind: inference, forward or backward.
        function: the function of the model.
        file: its file.
        line: its line.
        operators: counts of torch's operators.
        cases: the case of its entry that each node took, if the entry has several
            (`{"addmm": "aten::addmm/2"}`; docs/language.md).
        nodes: counts of ONNX nodes.
        session_nodes: counts of nodes that ONNX Runtime runs; None if unknown.
        fusions: nodes that ONNX Runtime replaced.
        removed: counts of nodes that it removed.
        torch: operators that torch runs.
        providers: execution providers.
        frozen: the number of weights that are constants of a session.
        frozen_bytes: their size.
        not_frozen: why there is none.
        cache: where the conversion of each session was found: "miss", "memory", "disk".
        seconds: durations of the phases.
        rewrites: how often each rule fired.
        refused: by rule, the reasons why it did not fire.
        steps: those of `backend.aot.pipeline` that did something, with the reason.
        onnx: the models, one a session.
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
    """What `torch.compile(model, backend="ortable")` makes of one call; prints as text.

    Attributes:
        graph_count: the number of dynamo's graphs.
        graphs: each of them, or, with gradients, its forward and its backward.
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
        """Convert to plain values, without the models."""
        graphs = tuple(dataclasses.replace(graph, onnx=()) for graph in self.graphs)
        plain = _to_plain(dataclasses.replace(self, graphs=graphs))
        for graph in plain["graphs"]:
            del graph["onnx"]
        assert isinstance(plain, dict)
        return plain

    def to_json(self, indent: int | None = 2) -> str:
        """Convert `as_dict` to JSON.

        Args:
            indent: spaces of a step; None for one line.
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
    """Format as text, with lines below a head indented.

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
    """Yield title, heads of graphs and lines, each with its depth."""
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
    wanting = {row.operator for row in explained.unsupported}
    return f"{text}, {format_count(len(wanting), 'unsupported operator')}" if wanting else text


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
    """Yield heads, each with the lines below it."""
    if graph.operators:
        yield _format_counts(graph.operators), []
    if graph.cases:
        yield f"cases of entries: {_format_counts(Counter(graph.cases.values()))}", []
    unsupported = [row for row in graph.torch if row.unsupported]
    for title, rows in (
        ("not supported, so torch runs it (an error with fallback='error')", unsupported),
        ("placed in torch", [row for row in graph.torch if not row.unsupported]),
    ):
        if rows:
            yield title, [line for row in rows for line in _torch_lines(row)]
    if graph.steps:
        yield f"steps: {'; '.join(f'{name} ({why})' for name, why in graph.steps.items())}", []
    if not graph.onnx:
        yield "all of it runs in torch", []
        return
    sessions = format_count(len(graph.onnx), "session")
    cached = [where for where in graph.cache if where != "miss"]
    cache_text = f" ({', '.join(cached)} cache)" if cached else ""
    nodes = format_count(sum(graph.nodes.values()), "ONNX node")
    yield f"{nodes} in {sessions}{cache_text}: {_format_counts(graph.nodes)}", []
    yield from _rewrite_sections(graph, named)
    yield from _session_sections(graph)
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
    where = f" at {lines[0]}" if lines else ""
    more = f" and {len(lines) - 1} more lines" if len(lines) > 1 else ""
    calls = format_count(row.calls, "call")
    start = ["start from:", *row.draft.splitlines()] if row.draft else []
    return [f"{row.operator}, {calls}{where}{more}: {row.why}", *start]


def _rewrite_sections(
    graph: GraphExplanation, named: Sequence[str]
) -> Iterator[tuple[str, list[str]]]:
    """Yield rules that fired, with lines of the model, and why others did not."""
    fired = [line for model in graph.onnx for line in fired_lines(graph.rewrites, model)]
    yield rewrite_summary(graph.rewrites), list(dict.fromkeys(fired))
    absent = [rule for rule in named if rule not in graph.rewrites]
    if absent:
        yield f"named, and fired nowhere: {', '.join(absent)}", []
    if graph.refused:
        head = "rules that were refused somewhere, most often first:"
        yield head, list(refused_lines(graph.refused, named))


def _session_sections(graph: GraphExplanation) -> Iterator[tuple[str, list[str]]]:
    """Yield what ONNX Runtime made of the nodes."""
    if graph.session_nodes is None:
        return
    total, before = sum(graph.session_nodes.values()), sum(graph.nodes.values())
    lines = [str(fusion) for fusion in graph.fusions[:_MAX_FUSIONS]]
    if len(graph.fusions) > _MAX_FUSIONS:
        lines.append(f"and {len(graph.fusions) - _MAX_FUSIONS} more kinds")
    if graph.removed:
        lines.append(f"gone, constant or without effect: {_format_counts(graph.removed)}")
    if lines:
        yield f"ONNX Runtime makes {format_count(total, 'node')} of them", lines
    else:
        yield f"ONNX Runtime runs {'it as it is' if before == 1 else 'them as they are'}", []


def _format_counts(counts: Mapping[str, int]) -> str:
    pairs = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
    return ", ".join(f"{name} {count}" for name, count in pairs)


_MAX_LOCATIONS = 3
_REASON = re.compile(r"^(\S+) (is read elsewhere|is an output|comes later in the graph)$")


def format_count(number: int, noun: str) -> str:
    """Format a count: ``1 rule``, ``2 rules``."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def rewrite_summary(counts: Mapping[str, int]) -> str:
    """Format the number of replacements, and of rules."""
    return f"{format_count(sum(counts.values()), 'rewrite')} by {format_count(len(counts), 'rule')}"


def fired_lines(counts: Mapping[str, int], model: Any) -> Iterator[str]:
    """Yield a line for each rule that fired: how often, and for which lines of the model."""
    locations = lines_by_rule(model)
    width = max(map(len, counts), default=0)
    for rule, count in sorted(counts.items(), key=lambda pair: (-pair[1], pair[0])):
        counter = locations.get(rule, Counter())
        frequent = [where for where, _ in counter.most_common(_MAX_LOCATIONS)]
        more = (
            f" and {len(counter) - _MAX_LOCATIONS} more lines"
            if len(counter) > _MAX_LOCATIONS
            else ""
        )
        yield f"{rule:{width}} {count:4}  {', '.join(frequent)}{more}".rstrip()


def lines_by_rule(model: Any) -> dict[str, Counter[str]]:
    """Count the lines of the model that each rule's nodes come from.

    A rule that only removes nodes is not listed.
    """
    lines: dict[str, Counter[str]] = {}
    for node, _ in (item for part in (model.graph, *model.functions) for item in nodes_below(part)):
        about = {item.key: item.value for item in node.metadata_props}
        if REWRITES in about:
            where = about.get("source") or about.get("fx_node", "")
            line = re.match(r".*?:\d+(?=:|$)", where)
            for rule in about[REWRITES].split(", "):
                lines.setdefault(rule, Counter())[line.group() if line else where] += 1
    return lines


def refused_lines(
    refused: Mapping[str, Mapping[str, int]], first: Collection[str] = (), max_rules: int = 5
) -> Iterator[str]:
    """Yield the rules that were refused most often, with reasons, after the rules ``first``."""
    order = sorted(refused, key=lambda rule: rule not in first)
    listed = order[: max(max_rules, sum(rule in first for rule in order))]
    width = max(map(len, listed), default=0)
    for rule in listed:
        yield f"{rule:{width}}  {'; '.join(_merge_reasons(refused[rule]))}"
    if len(order) > len(listed):
        yield f"and {format_count(len(order) - len(listed), 'other rule')}"


def _merge_reasons(reasons: Mapping[str, int]) -> list[str]:
    """Merge reasons that differ only in the result that they name."""
    names: dict[str, list[str]] = {}
    for reason in reasons:
        match = _REASON.match(reason)
        if match:
            names.setdefault(match.group(2), []).append(match.group(1))
        else:
            names.setdefault(reason, [])
    return [f"{', '.join(results)} {text}" if results else text for text, results in names.items()]
