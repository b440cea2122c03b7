"""What `explain` returns: an Explanation of graphs and breaks, as text, as Markdown, as JSON. Text
and Markdown are the same sections of the same lines, with what rewriting did to a graph and what
ONNX Runtime made of it. Filled by `explain_call`; read by users and by the shell."""

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
from ortable.ir.proto.walk import nodes_below, nodes_between, places_of

_NCHWC = "com.microsoft.nchwc"


@dataclass(frozen=True)
class Fusion:
    """Nodes of the ONNX graph that ONNX Runtime replaced: the operators of `before` by those of
    `after`, `times` times, for these `lines` of the model."""

    before: tuple[str, ...]
    after: tuple[str, ...]
    times: int
    lines: tuple[str, ...]

    def __str__(self) -> str:
        where = f" (at {self.lines[0]}" if self.lines else ""
        more = f" and {len(self.lines) - 1} more lines" if len(self.lines) > 1 else ""
        times = "" if self.times == 1 else f", {self.times} times"
        return f"{_sum(self.before)} became {_sum(self.after)}{times}{where}{more}" + (
            ")" if where else ""
        )


def fusions_of(before: ModelProto, after: ModelProto) -> tuple[list[Fusion], Counter[str]]:
    """What became of what, most frequent first, and the operators of nodes that are gone: computed
    once for all as constants, or without effect."""
    made = {name: node for node in before.graph.node for name in node.output if name}
    shared = {name for node in after.graph.node for name in node.output} & made.keys()
    shared |= {value.name for value in before.graph.input}
    places = places_of(made)
    found: dict[tuple[tuple[str, ...], tuple[str, ...]], list[str]] = {}
    removed: Counter[str] = Counter()
    gone = {id(node): node for node in before.graph.node}
    for region in _regions(after, shared):
        values = [name for node in region for name in node.output if name in shared]
        old = nodes_between(values, made, places, shared)
        old = [node for node in old if gone.pop(id(node), None) is not None]
        names = tuple(map(_name, old)), tuple(map(_name, region))
        kept = Counter(names[1])
        if kept <= Counter(names[0]):  # the same nodes, without what was constant among them
            removed += Counter(names[0]) - kept
        elif old:
            found.setdefault(names, []).append(_line(old))
    rows = [
        Fusion(names[0], names[1], len(lines), tuple(dict.fromkeys(filter(None, lines))))
        for names, lines in found.items()
    ]
    removed.update(_name(node) for node in gone.values())
    return sorted(rows, key=lambda row: -row.times), removed


def _regions(model: ModelProto, shared: set[str]) -> list[list[NodeProto]]:
    """The nodes in groups that are joined by values of names of their own."""
    groups: dict[int, list[NodeProto]] = {}
    of_value: dict[str, int] = {}
    for number, node in enumerate(model.graph.node):
        joined = {of_value[name] for name in node.input if name in of_value}
        members = [each for group in sorted(joined) for each in groups.pop(group)]
        groups[number] = [*members, node]
        for name, group in of_value.items():
            if group in joined:
                of_value[name] = number
        of_value.update({name: number for name in node.output if name and name not in shared})
    return list(groups.values())


def _name(node: NodeProto) -> str:
    return f"nchwc.{node.op_type}" if node.domain == _NCHWC else node.op_type


def _line(nodes: Iterable[NodeProto]) -> str:
    """The line of the model that the first of the nodes which has one stands for."""
    for node in nodes:
        for prop in node.metadata_props:
            if prop.key == "source":
                return str(prop.value)
    return ""


def _sum(names: Iterable[str]) -> str:
    """``Gemm + Relu``, ``2 Conv + Relu``, ``nothing``."""
    counts = Counter(names)
    parts = [name if count == 1 else f"{count} {name}" for name, count in counts.items()]
    return " + ".join(parts) or "nothing"


_MOST = 20  # fusions in a text


@dataclass(frozen=True)
class GraphBreak:
    """A place where dynamo ended a graph: what it met there, why that ends a graph, what to do
    about it, in words; and the user's line, `times` times the same."""

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
        """`model.py:12`"""
        return f"{os.path.basename(self.file)}:{self.line}" if self.file else "an unknown place"


@dataclass(frozen=True)
class TorchOperator:
    """An operator that torch runs, between sessions of ONNX Runtime: at which lines, and why.
    `unsupported` where ortable cannot convert it: an error with `fallback="error"`. `draft` is the
    YAML of an entry to start from, where the specs have none for it."""

    operator: str
    calls: int
    why: str
    lines: tuple[str, ...]
    unsupported: bool
    draft: str = ""


@dataclass(frozen=True)
class GraphExplanation:
    """One compiled graph, the `number`-th of dynamo's.

    `operators` are torch's, `cases` which case of its entry each node took whose entry has several
    (`{"addmm": "aten::addmm/2"}`; docs/language.md), `nodes` ONNX nodes by operator,
    `session_nodes` those that ONNX Runtime runs (None where it was not asked), by `fusions` and
    without the nodes that are `removed`. `frozen` is the number of weights that are constants of a
    session, `frozen_bytes` their size, `not_frozen` why there is none.  `cache` says for each
    session where its conversion was found: "miss", "memory", "disk".  `seconds` are those of the
    phases.  `steps` of `backend.aot.pipeline` are those that did something, by name with the
    reason.  `onnx` are the models, one a session.
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
        """`Model.forward (model.py:12)`"""
        if not self.function:
            return "a function of torch"
        return f"{self.function} ({os.path.basename(self.file)}:{self.line})"


@dataclass(frozen=True)
class Explanation:
    """What `torch.compile(model, backend="ortable")` makes of one call; `str` and `print` give the
    text.

    Attributes:
        graph_count: the number of dynamo's graphs.
        graphs: each of them, or, with gradients, its forward and its backward.
        breaks: where and why dynamo's graphs end.
        notes: what else one should know.
    """

    graph_count: int
    graphs: tuple[GraphExplanation, ...]
    breaks: tuple[GraphBreak, ...]
    notes: tuple[str, ...] = ()

    @property
    def unsupported(self) -> tuple[TorchOperator, ...]:
        """The operators that ortable cannot convert, of all graphs."""
        found = (each for graph in self.graphs for each in graph.torch if each.unsupported)
        return tuple(found)

    def __str__(self) -> str:
        return as_text(self)

    def to_markdown(self) -> str:
        """The same as a page of Markdown."""
        return as_markdown(self)

    def as_dict(self) -> dict[str, Any]:
        """The same as plain values; without the models."""
        graphs = tuple(dataclasses.replace(graph, onnx=()) for graph in self.graphs)
        found = _plain(dataclasses.replace(self, graphs=graphs))
        for graph in found["graphs"]:
            del graph["onnx"]
        assert isinstance(found, dict)
        return found

    def to_json(self, indent: int | None = 2) -> str:
        """`as_dict` as JSON.

        Args:
            indent: spaces of a step; None for one line.
        """
        return json.dumps(self.as_dict(), indent=indent)


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value):
        return {f.name: _plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return value


def as_text(explained: Explanation, named: Sequence[str] = ()) -> str:
    """The text, lines below a head indented.

    :param named: rules of rewriting of which to say also that they fired nowhere, or why
    """
    title, *lines = _report(explained, named)
    return "\n".join([title[1], *("  " * depth + line for depth, line in lines)])


def as_markdown(explained: Explanation, named: Sequence[str] = ()) -> str:
    """The same with headings, and lists in place of indented lines."""
    (_, title), *lines = _report(explained, named, "`")
    made = [f"# {title}", ""]
    for depth, line in lines:
        made += [f"\n## {line}\n" if depth == 0 else f"{'  ' * (depth - 1)}- {line}"]
    return "\n".join(made) + "\n"


def _report(
    explained: Explanation, named: Sequence[str], quote: str = ""
) -> Iterator[tuple[int, str]]:
    """Title, heads of graphs and lines, each with its depth."""
    yield 0, _head(explained)
    for number, each in enumerate(explained.breaks, 1):
        head, *more = _break_lines(each)
        yield 1, f"break {number} at {quote}{head}{quote}"
        yield from ((2, line) for line in more)
    yield from ((1, note) for note in explained.notes)
    for graph in explained.graphs:
        yield 0, _graph_head(graph)
        for head, below in _sections(graph, named):
            yield 1, head
            yield from ((2, line) for line in below)


def _head(explained: Explanation) -> str:
    breaks = sum(each.times for each in explained.breaks)
    text = f"{counted(explained.graph_count, 'graph')}, {counted(breaks, 'graph break')}"
    wanting = {each.operator for each in explained.unsupported}
    return f"{text}, {counted(len(wanting), 'unsupported operator')}" if wanting else text


def _break_lines(each: GraphBreak) -> list[str]:
    times = f" ({each.times} times)" if each.times > 1 else ""
    head = f"{each.where}: {each.code}{times}" if each.code else f"{each.where}{times}"
    why = [each.why] if each.why else []
    return [head, each.what, *why, *(f"hint: {hint}" for hint in each.hints)]


def _graph_head(graph: GraphExplanation) -> str:
    operators = counted(sum(graph.operators.values()), "operator")
    return f"graph {graph.number} ({graph.kind}) of {graph.where}: {operators} of torch"


def _sections(graph: GraphExplanation, named: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
    """Heads, each with the lines below it."""
    if graph.operators:
        yield _counts(graph.operators), []
    if graph.cases:
        yield f"cases of entries: {_counts(Counter(graph.cases.values()))}", []
    unsupported = [each for each in graph.torch if each.unsupported]
    for title, rows in (
        ("not supported, so torch runs it (an error with fallback='error')", unsupported),
        ("placed in torch", [each for each in graph.torch if not each.unsupported]),
    ):
        if rows:
            yield title, [line for each in rows for line in _torch_lines(each)]
    if graph.steps:
        yield f"steps: {'; '.join(f'{name} ({why})' for name, why in graph.steps.items())}", []
    if not graph.onnx:
        yield "all of it runs in torch", []
        return
    sessions = counted(len(graph.onnx), "session")
    cached = [where for where in graph.cache if where != "miss"]
    found = f" ({', '.join(cached)} cache)" if cached else ""
    nodes = counted(sum(graph.nodes.values()), "ONNX node")
    yield f"{nodes} in {sessions}{found}: {_counts(graph.nodes)}", []
    yield from _rewrites(graph, named)
    yield from _optimized(graph)
    if graph.frozen:
        size = f"{graph.frozen_bytes / 1e6:.1f} MB" if graph.frozen_bytes >= 1e5 else ""
        size = size or f"{graph.frozen_bytes} bytes"
        yield f"{counted(graph.frozen, 'weight')} frozen: constants of the session, {size}", []
    elif graph.not_frozen:
        yield f"no weight frozen: {graph.not_frozen}", []
    phases = ", ".join(f"{phase} {seconds:.3f}" for phase, seconds in graph.seconds.items())
    yield f"seconds: {phases}", []


def _torch_lines(each: TorchOperator) -> list[str]:
    lines = each.lines
    where = f" at {lines[0]}" if lines else ""
    more = f" and {len(lines) - 1} more lines" if len(lines) > 1 else ""
    calls = counted(each.calls, "call")
    start = ["start from:", *each.draft.splitlines()] if each.draft else []
    return [f"{each.operator}, {calls}{where}{more}: {each.why}", *start]


def _rewrites(graph: GraphExplanation, named: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
    """Rules that fired, with lines of the model, and why others did not."""
    fired = [line for model in graph.onnx for line in fired_lines(graph.rewrites, model)]
    yield summary(graph.rewrites), list(dict.fromkeys(fired))
    absent = [rule for rule in named if rule not in graph.rewrites]
    if absent:
        yield f"named, and fired nowhere: {', '.join(absent)}", []
    if graph.refused:
        head = "rules that were refused somewhere, most often first:"
        yield head, list(refused_lines(graph.refused, named))


def _optimized(graph: GraphExplanation) -> Iterator[tuple[str, list[str]]]:
    """What ONNX Runtime made of the nodes."""
    if graph.session_nodes is None:
        return
    total, before = sum(graph.session_nodes.values()), sum(graph.nodes.values())
    lines = [str(fusion) for fusion in graph.fusions[:_MOST]]
    if len(graph.fusions) > _MOST:
        lines.append(f"and {len(graph.fusions) - _MOST} more kinds")
    if graph.removed:
        lines.append(f"gone, constant or without effect: {_counts(graph.removed)}")
    if lines:
        yield f"ONNX Runtime makes {counted(total, 'node')} of them", lines
    else:
        yield f"ONNX Runtime runs {'it as it is' if before == 1 else 'them as they are'}", []


def _counts(counts: Mapping[str, int]) -> str:
    pairs = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
    return ", ".join(f"{name} {count}" for name, count in pairs)


_PLACES = 3
_NAMED = re.compile(r"^(\S+) (is read elsewhere|is an output|comes later in the graph)$")


def counted(number: int, what: str) -> str:
    """``1 rule``, ``2 rules``."""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def summary(counts: Mapping[str, int]) -> str:
    """How many replacements there were, by how many rules."""
    return f"{counted(sum(counts.values()), 'rewrite')} by {counted(len(counts), 'rule')}"


def fired_lines(counts: Mapping[str, int], model: Any) -> Iterator[str]:
    """A line for each rule that fired: how often, and for which lines of the model."""
    places = made_by_rules(model)
    width = max(map(len, counts), default=0)
    for rule, count in sorted(counts.items(), key=lambda pair: (-pair[1], pair[0])):
        found = places.get(rule, Counter())
        shown = [where for where, _ in found.most_common(_PLACES)]
        more = f" and {len(found) - _PLACES} more lines" if len(found) > _PLACES else ""
        yield f"{rule:{width}} {count:4}  {', '.join(shown)}{more}".rstrip()


def made_by_rules(model: Any) -> dict[str, Counter[str]]:
    """The lines of the model that nodes made by a rule stand for, by rule; a rule that only takes
    nodes away made none."""
    found: dict[str, Counter[str]] = {}
    for node, _ in (each for part in (model.graph, *model.functions) for each in nodes_below(part)):
        about = {each.key: each.value for each in node.metadata_props}
        if REWRITES in about:
            where = about.get("source") or about.get("fx_node", "")
            line = re.match(r".*?:\d+(?=:|$)", where)
            for rule in about[REWRITES].split(", "):
                found.setdefault(rule, Counter())[line.group() if line else where] += 1
    return found


def refused_lines(
    refused: Mapping[str, Mapping[str, int]], first: Collection[str] = (), most: int = 5
) -> Iterator[str]:
    """A line for each of the rules that were refused most often, with their reasons; before these
    come the rules ``first``, all of them."""
    order = sorted(refused, key=lambda rule: rule not in first)
    shown = order[: max(most, sum(rule in first for rule in order))]
    width = max(map(len, shown), default=0)
    for rule in shown:
        yield f"{rule:{width}}  {'; '.join(_merged(refused[rule]))}"
    if len(order) > len(shown):
        yield f"and {counted(len(order) - len(shown), 'other rule')}"


def _merged(reasons: Mapping[str, int]) -> list[str]:
    """Reasons that differ only in the result that they name, as one."""
    names: dict[str, list[str]] = {}
    for reason in reasons:
        match = _NAMED.match(reason)
        if match:
            names.setdefault(match.group(2), []).append(match.group(1))
        else:
            names.setdefault(reason, [])
    return [f"{', '.join(found)} {text}" if found else text for text, found in names.items()]
