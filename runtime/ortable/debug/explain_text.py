"""An Explanation in words: the text of `print`, and Markdown. Both are the same sections of the
same lines. Called by `explain_records`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from .rewrites_text import counted, fired_lines, refused_lines, summary

if TYPE_CHECKING:
    from .explain_records import Explanation, GraphBreak, GraphExplanation, TorchOperator

__all__ = ["as_markdown", "as_text"]

_MOST = 20  # fusions in a text


def as_text(explained: Explanation, named: Sequence[str] = ()) -> str:
    """The text, lines below a head indented.

    :param named: rules of rewriting of which to say also that they fired nowhere, or why
    """
    lines = [_head(explained)]
    for number, each in enumerate(explained.breaks, 1):
        head, *more = _break_lines(each)
        lines += [f"  break {number} at {head}", *(f"    {line}" for line in more)]
    lines += [f"  {note}" for note in explained.notes]
    for graph in explained.graphs:
        lines.append(_graph_head(graph))
        for head, below in _sections(graph, named):
            lines += [f"  {head}", *(f"    {line}" for line in below)]
    return "\n".join(lines)


def as_markdown(explained: Explanation, named: Sequence[str] = ()) -> str:
    """The same with headings, and lists in place of indented lines."""
    lines = [f"# {_head(explained)}", ""]
    for number, each in enumerate(explained.breaks, 1):
        head, *more = _break_lines(each)
        lines += [f"- break {number} at `{head}`", *(f"  - {line}" for line in more)]
    lines += [*(f"- {note}" for note in explained.notes), ""]
    for graph in explained.graphs:
        lines += [f"## {_graph_head(graph)}", ""]
        for head, below in _sections(graph, named):
            lines += [f"- {head}", *(f"  - {line}" for line in below)]
        lines.append("")
    return "\n".join(lines).rstrip() + "\n"


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
    unsupported = [each for each in graph.torch if each.unsupported]
    for title, rows in (
        ("not supported: an error, unless options={'fallback': 'eager'}", unsupported),
        ("placed in torch", [each for each in graph.torch if not each.unsupported]),
    ):
        if rows:
            yield title, [_torch_line(each) for each in rows]
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


def _torch_line(each: TorchOperator) -> str:
    lines = each.lines
    where = f" at {lines[0]}" if lines else ""
    more = f" and {len(lines) - 1} more lines" if len(lines) > 1 else ""
    calls = counted(each.calls, "call")
    return f"{each.operator}, {calls}{where}{more}: {each.why}"


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
