"""What `profile` returns: a Profile of times by module, source line, ATen operator and kernel, as
text, as JSON, as a trace of Chrome, as a page of HTML. In come nodes with their times, out go rows
by name, the tree of modules, and texts. Made by `call`; read by users and by the shell."""

from __future__ import annotations

import html
import itertools
import json
import math
import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ortable.errors import OrtableError
from ortable.ir.proto.atomic_files import write_file

NO_LINE = "no source line is known"
IN_SESSION = "outside of kernels (session)"
AROUND_TORCH = "torch around its operators"
IN_AUTOGRAD = "autograd around the backward"
IN_PYTHON = "Python around the session"


@dataclass(frozen=True)
class Row:
    """A row of a table: microseconds a call, and how many kernels that are (0: none)."""

    name: str
    us: float
    runs: float = 0.0


@dataclass(frozen=True)
class NodeTime:
    """A node that ONNX Runtime ran, of the graph `graph` (its place in `Profile.graphs`); or an
    operator that torch ran (`provider` "torch"), calls of one line together.

    `kernel` is its operator, `module` a dotted path (empty: the root), `us` microseconds a call
    without those of the nodes inside it, `runs` how often it ran in a call. `results` are those of
    the model's nodes that became it, the first of each; in a local function, after the path of the
    module that calls it and a slash.
    """

    graph: int
    name: str
    kernel: str
    provider: str
    module: str
    operator: str
    line: str
    us: float
    runs: float
    results: tuple[str, ...] = ()


@dataclass(frozen=True)
class ModuleTime:
    """A module of a graph: `us` microseconds a call with all that is inside, `own_us` without the
    modules inside. The path is empty for the graph itself; `kind` is the class where it is known.
    """

    graph: int
    path: str
    kind: str
    us: float
    own_us: float
    runs: float

    @property
    def depth(self) -> int:
        """How many modules it is inside of."""
        return len(self.path.split(".")) if self.path else 0


@dataclass(frozen=True)
class GraphTime:
    """A graph that torch compiled, the `number`-th of dynamo's: its kind ("inference", "forward",
    "backward", "torch"), its frame, and microseconds a call: in kernels and operators of torch, in
    its sessions outside of kernels, and in torch around its operators."""

    number: int
    kind: str
    where: str
    kernels_us: float
    session_us: float
    torch_us: float

    @property
    def label(self) -> str:
        """`graph 1 (inference) of Net.forward (net.py:12)`"""
        if not self.number:
            return f"{self.kind} of {self.where}"
        return f"graph {self.number} ({self.kind}) of {self.where}"


@dataclass(frozen=True)
class Step:
    """Something that ran in one call, from `begin_us` on, microseconds after the call began.
    `what` is "session", "partition", "torch", "backward", "kernel", or "operator" for one of
    torch's; `node` is the place of the latter two in `Profile.nodes`."""

    what: str
    graph: int
    thread: int
    begin_us: float
    us: float
    node: int = -1


@dataclass(frozen=True)
class Profile:
    """Where the time of `model(*args)` goes. `str` and `print` give the text.

    All times are microseconds a call, the mean of the calls whose time is in the middle half. The
    kernels' and those of `rest` add up to `call_us`, in every table: `sum(row.us for row in
    [*profile.lines, *profile.rest])`.

    Attributes:
        model: what was called.
        calls: how many calls were measured.
        counted: how many of them count: the fastest and the slowest quarter do not.
        call_us: a call with the profiler on, from the outside.
        plain_us: a call in the same sessions after the profiler was turned off.
        graphs: the graphs that ran.
        nodes: each node that ONNX Runtime ran, and operators that torch ran.
        modules: by module, each with what is inside, in the order in which they ran.
        lines: by source line, the slowest first.
        operators: by ATen operator; "aten::addmm + aten::relu" where ONNX Runtime fused two.
        kernels: by kernel and execution provider, "torch" for its own.
        rest: what is in no kernel: of the sessions, of torch, of Python.
        timeline: the call of middle length, event by event.
        timeline_us: how long that call took.
        notes: what else one should know.
    """

    model: str
    calls: int
    counted: int
    call_us: float
    plain_us: float
    graphs: tuple[GraphTime, ...]
    nodes: tuple[NodeTime, ...]
    modules: tuple[ModuleTime, ...]
    lines: tuple[Row, ...]
    operators: tuple[Row, ...]
    kernels: tuple[Row, ...]
    rest: tuple[Row, ...]
    timeline: tuple[Step, ...] = field(repr=False)
    timeline_us: float
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.text()

    def text(self, rows: int = 15) -> str:
        """The tables as text, in milliseconds.

        Args:
            rows: how many rows a table has; the others are one row. Modules that take less than
                1 % of the call are in those around them only.
        """
        parts = [head(self), *(f"  {note}" for note in self.notes)]
        for table in tables_of(self, rows):
            parts += ["", *lines_of(table)]
        return "\n".join(parts)

    def as_dict(self) -> dict[str, Any]:
        """All of it as plain values, but for the timeline; docs/profiling.md has the fields."""
        found = asdict(self)
        del found["timeline"], found["timeline_us"]
        return {"version": 1, **found}

    def json(self, indent: int | None = 2) -> str:
        """`as_dict` as JSON.

        Args:
            indent: spaces of a step; None for one line.
        """
        return json.dumps(self.as_dict(), indent=indent)

    def trace(self) -> dict[str, Any]:
        """The call of middle length as a trace of Chrome: modules above their kernels, times in
        microseconds."""
        return trace_of(self)

    def save_json(self, path: str | os.PathLike[str]) -> None:
        """Writes `json()`.

        Args:
            path: the file.
        """
        write_file(Path(path), f"{self.json()}\n".encode())

    def save_trace(self, path: str | os.PathLike[str]) -> None:
        """Writes `trace()` for chrome://tracing and https://ui.perfetto.dev.

        Args:
            path: the file.
        """
        write_file(Path(path), f"{json.dumps(self.trace())}\n".encode())

    def save_html(self, path: str | os.PathLike[str]) -> None:
        """Writes a page with a flame graph of the modules and all tables. It reads nothing else, so
        it opens without a network.

        Args:
            path: the file.

        Raises:
            OrtableError: plotly is absent: `pip install 'ortable[profile]'`.
        """
        write_file(Path(path), html_of(self).encode())


# -- the rows


def rows_by(nodes: Iterable[NodeTime], name: Callable[[NodeTime], str]) -> tuple[Row, ...]:
    """The nodes' times by a name, the largest first."""
    times: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
    for node in nodes:
        row = times[name(node)]
        row[0] += node.us
        row[1] += node.runs
    rows = [Row(key, us, runs) for key, (us, runs) in times.items()]
    return tuple(sorted(rows, key=lambda row: -row.us))


def module_rows(
    graphs: Sequence[GraphTime], nodes: Sequence[NodeTime], kinds: Mapping[tuple[int, str], str]
) -> tuple[ModuleTime, ...]:
    """The modules of each graph, a module before those inside it."""
    found: list[ModuleTime] = []
    for number in range(len(graphs)):
        total: dict[str, float] = {"": 0.0}
        own: dict[str, float] = defaultdict(float)
        runs: dict[str, float] = defaultdict(float)
        for node in nodes:
            if node.graph != number:
                continue
            own[node.module] += node.us
            for path in _around(node.module):
                total[path] = total.get(path, 0.0) + node.us
                runs[path] += node.runs
        found += [
            ModuleTime(number, p, kinds.get((number, p), ""), total[p], own[p], runs[p])
            for p in _as_tree(total)
        ]
    return tuple(found)


def shared_parts(paths: Iterable[Sequence[str]]) -> int:
    """How many parts some paths begin with that are the same."""
    places = zip(*paths, strict=False)
    return sum(1 for _ in itertools.takewhile(lambda parts: len(set(parts)) == 1, places))


def _around(path: str) -> list[str]:
    """The root, the modules around a module, and itself."""
    parts = path.split(".") if path else []
    return [".".join(parts[:end]) for end in range(len(parts) + 1)]


def _as_tree(paths: Iterable[str]) -> list[str]:
    """Paths with each below the one that it is inside of, in their order otherwise, but for the
    elements of a list: they are in the list's."""
    order = {path: number for number, path in enumerate(paths)}
    first: dict[str, int] = {}  # element of a list
    for path, number in order.items():
        around, _, name = path.rpartition(".")
        if name.isdigit():
            first.setdefault(around, number)

    def key(path: str) -> tuple[int, int]:
        around, _, name = path.rpartition(".")
        return (first[around], int(name)) if name.isdigit() else (order[path], 0)

    return sorted(order, key=lambda path: [key(each) for each in _around(path)])


# -- tables


_SMALL = 0.01  # of the call: modules below it are not in a table


@dataclass(frozen=True)
class Table:
    """A table for people: its title, and rows of a name, milliseconds, per cent and a count."""

    title: str
    rows: tuple[tuple[str, str, str, str], ...]


HEADS = ("ms", "%", "kernels")


def head(profile: Profile) -> str:
    """The first line."""
    calls = "1 call" if profile.calls == 1 else f"{profile.calls} calls"
    if profile.counted > 1:
        middle = "" if profile.counted == profile.calls else f"the middle {profile.counted} of "
        calls = f"the mean of {middle}{calls}"
    return (
        f"{profile.model}: {profile.call_us / 1000:.3f} ms a call ({calls}), "
        f"{profile.plain_us / 1000:.3f} ms without the profiler"
    )


def tables_of(profile: Profile, most: int) -> list[Table]:
    """The four tables; what is in no kernel ends each of them, so that all have the same sum."""
    rest = [_cells(profile, row.name, row.us, row.runs) for row in profile.rest]
    total = _cells(profile, "the call", profile.call_us, sum(n.runs for n in profile.nodes))
    made = [Table("by module", (*_module_cells(profile), *rest, total))]
    for title, rows in (
        ("by source line", profile.lines),
        ("by ATen operator", profile.operators),
        ("by kernel", profile.kernels),
    ):
        shown = [_cells(profile, row.name, row.us, row.runs) for row in _cut(rows, most)]
        made.append(Table(title, (*shown, *rest, total)))
    return made


def _cut(rows: Sequence[Row], most: int) -> Sequence[Row]:
    if len(rows) <= most + 1:
        return rows
    last = rows[most:]
    more = Row(f"{len(last)} more", sum(r.us for r in last), sum(r.runs for r in last))
    return [*rows[:most], more]


def _module_cells(profile: Profile) -> Iterator[tuple[str, str, str, str]]:
    for row in profile.modules:
        if row.path and row.us < _SMALL * profile.call_us:
            continue
        name = row.path.rpartition(".")[2] or profile.graphs[row.graph].label
        name = "  " * row.depth + name + (f" ({row.kind})" if row.kind and row.path else "")
        yield _cells(profile, name, row.us, row.runs)


def _cells(profile: Profile, name: str, us: float, runs: float) -> tuple[str, str, str, str]:
    share = 100 * us / profile.call_us if profile.call_us else 0.0
    return name, f"{us / 1000:.3f}", f"{share:.1f}", f"{runs:g}" if runs else ""


_WIDEST = 100


def lines_of(table: Table) -> Iterator[str]:
    """The lines of a table."""
    names = [_short(row[0]) for row in table.rows]
    width = max(len(table.title), *map(len, names))
    yield f"{table.title:{width}} {HEADS[0]:>10} {HEADS[1]:>6} {HEADS[2]:>8}"
    for name, (_, *numbers) in zip(names, table.rows, strict=True):
        yield f"{name:{width}} {numbers[0]:>10} {numbers[1]:>6} {numbers[2]:>8}".rstrip()


def _short(name: str) -> str:
    return name if len(name) <= _WIDEST else f"{name[: _WIDEST - 3]}..."


# -- the trace


_CATEGORIES = (
    "call", "backward", "torch", "partition", "session", "module", "operator", "kernel"
)  # fmt: skip
# of steps that are as long: what torch runs an operator for lasts around a session
_NESTING = ("backward", "torch", "operator", "partition", "session", "kernel")


def trace_of(profile: Profile) -> dict[str, Any]:
    """The trace, times in microseconds."""
    threads = _main_first(profile.timeline)
    names = [("process_name", 0, f"ortable: {profile.model}")]
    names += [("thread_name", place, f"thread {place}") for place in threads.values()]
    events = [
        {"ph": "M", "name": name, "pid": 1, "tid": tid, "args": {"name": text}}
        for name, tid, text in dict.fromkeys(names)
    ]
    about = {"calls": profile.calls}
    events.append(_event(profile.model, "call", 0.0, profile.timeline_us, 0, about))
    for thread, place in threads.items():
        steps = (step for step in profile.timeline if step.thread == thread)
        events += _events(profile, steps, place)
    events.sort(key=_order)
    return {"traceEvents": events, "displayTimeUnit": "ms"}


def _main_first(timeline: Sequence[Step]) -> dict[int, int]:
    """Threads by number; those of graphs that torch runs a part of are the first's."""
    found: dict[int, int] = {}
    for step in sorted(timeline, key=lambda step: step.what == "kernel"):
        found.setdefault(step.thread, 0 if step.what != "kernel" else len(set(found.values())))
    return found


def _order(event: dict[str, Any]) -> tuple[Any, ...]:
    """What lasts around another event comes before it, also where both are as long."""
    path = str(event["args"].get("module", ""))
    inner = _CATEGORIES.index(event["cat"]) if "cat" in event else -1
    return event["tid"], event.get("ts", -1.0), -event.get("dur", 0.0), inner, len(path)


@dataclass
class _Around:
    """A step that lasts until `end`, its module, and the modules inside it that are open, the
    innermost last, with their begin."""

    end: float
    path: list[str]
    modules: list[tuple[str, float]] = field(default_factory=list)


def _events(profile: Profile, steps: Iterable[Step], thread: int) -> Iterator[dict[str, Any]]:
    """The events of the steps of a thread, with those of the modules around them."""
    around = [_Around(math.inf, [])]
    last = 0.0

    def close(kept: int) -> Iterator[dict[str, Any]]:
        modules = around[-1].modules
        while len(modules) > kept:
            path = [*around[-1].path, *(name for name, _ in modules)]
            name, begin = modules.pop()
            yield _event(name, "module", begin, last - begin, thread, {"module": ".".join(path)})

    def order(step: Step) -> tuple[float, float, int]:
        return step.begin_us, -step.us, _NESTING.index(step.what)

    for step in sorted(steps, key=order):
        while around[-1].end <= step.begin_us:
            yield from close(0)
            last = around.pop().end
        name, about = _said(profile, step)
        path = about["module"].split(".") if about.get("module") else []
        outer = around[-1]
        inside = len(around) > 1 and path[: len(outer.path)] == outer.path
        parts = path[len(outer.path) :] if inside else []
        shared = shared_parts([parts, [name for name, _ in outer.modules]])
        yield from close(shared)
        outer.modules += [(name, step.begin_us) for name in parts[shared:]]
        yield _event(name, step.what, step.begin_us, step.us, thread, about)
        around.append(_Around(step.begin_us + step.us, path))
    while around:
        yield from close(0)
        last = around.pop().end


def _said(profile: Profile, step: Step) -> tuple[str, dict[str, str]]:
    """What a step is called, and what is told of its node."""
    if step.node < 0:
        return "backward" if step.graph < 0 else profile.graphs[step.graph].label, {}
    node = profile.nodes[step.node]
    told = ("kernel", "provider", "module", "operator", "line")
    about = {"node": node.name, **{key: getattr(node, key) for key in told}}
    return f"{node.kernel}: {node.operator}" if step.what == "kernel" else node.operator, about


def _event(
    name: str, category: str, begin: float, length: float, thread: int, about: dict[str, Any]
) -> dict[str, Any]:
    return {
        "ph": "X",
        "name": name,
        "cat": category,
        "pid": 1,
        "tid": thread,
        "ts": round(begin, 3),
        "dur": round(length, 3),
        "args": about,
    }


# -- the page


_COLORS = {
    "call": "#cfd8dc",
    "graph": "#90a4ae",
    "module": "#ffcc80",
    "kernel": "#e57373",
    "rest": "#b0bec5",
}
_READABLE = {"minsize": 11, "mode": "hide"}  # smaller text is left out
_ROWS = 40  # of a table in the page


def _boxes(profile: Profile) -> Iterator[tuple[tuple[str, ...], str, str, float]]:
    """What the flame graph is made of, each with the way from the call, what it is, what to say of
    it, and its own microseconds: modules in the order of the table, kernels, and what is in no
    kernel."""
    for number, graph in enumerate(profile.graphs):
        yield (graph.label,), "graph", graph.where, 0.0
        for module in profile.modules:
            parts = module.path.split(".") if module.path and module.graph == number else []
            for depth in range(1, len(parts) + 1):
                yield (graph.label, *parts[:depth]), "module", ".".join(parts[:depth]), 0.0
        for node in profile.nodes:
            if node.graph == number:
                torch = node.kernel == node.operator
                label = f"torch: {node.operator}" if torch else f"{node.kernel}: {node.operator}"
                about = f"{node.module or 'the root'}, {node.line or NO_LINE}"
                parts = node.module.split(".") if node.module else []
                yield (graph.label, *parts, label), "kernel", about, node.us
        for label, us in ((IN_SESSION, graph.session_us), (AROUND_TORCH, graph.torch_us)):
            if us:
                yield (graph.label, label), "rest", label, us
    for row in profile.rest:
        if row.name not in (IN_SESSION, AROUND_TORCH):  # which are of their graphs
            yield (row.name,), "rest", row.name, row.us


_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>{title}</title>
<style>
body {{ font: 14px/1.45 system-ui, sans-serif; margin: 1.5rem; color: #222; }}
h1 {{ font-size: 1.2rem; margin: 0 0 .4rem; }}
h2 {{ font-size: 1rem; margin: 1.6rem 0 .4rem; }}
table {{ border-collapse: collapse; }}
td, th {{ padding: .1rem .7rem; text-align: right; white-space: pre; }}
td:first-child, th:first-child {{ text-align: left; font-family: ui-monospace, monospace; }}
tr:nth-child(even) {{ background: #f4f6f7; }}
</style>
</head>
<body>
<h1>{head}</h1>
{notes}
{figure}
{tables}
</body>
</html>
"""


def html_of(profile: Profile) -> str:
    """The page."""
    try:
        import plotly.graph_objects as go
        import plotly.io
    except ImportError as error:
        raise OrtableError(
            "The page of a profile needs the Python package 'plotly': install the extra with "
            "`pip install 'ortable[profile]'`. text(), json() and trace() need nothing."
        ) from error
    figure = go.Figure(go.Icicle(**_icicle(profile)))
    figure.update_layout(
        margin={"t": 10, "l": 0, "r": 0, "b": 10}, height=620, uniformtext=_READABLE
    )
    drawn = plotly.io.to_html(
        figure, include_plotlyjs=True, full_html=False, config={"displayModeBar": False}
    )
    return _PAGE.format(
        title=html.escape(f"{profile.model}: profile"),
        head=html.escape(head(profile)),
        notes="".join(f"<p>{html.escape(note)}</p>" for note in profile.notes),
        figure=drawn,
        tables="".join(map(_table, tables_of(profile, _ROWS))),
    )


def _icicle(profile: Profile) -> dict[str, Any]:
    """The boxes as plotly has them: lists of the same length. A box is as long as those on it."""
    known: dict[tuple[str, ...], tuple[str, str, str]] = {}
    known[()] = profile.model, "call", "the call"
    times: dict[tuple[str, ...], float] = defaultdict(float)
    for way, what, about, us in _boxes(profile):
        known.setdefault(way, (way[-1], what, about))
        for depth in range(1, len(way) + 1):
            times[way[:depth]] += us
    times[()] = profile.call_us
    numbers = {way: str(number) for number, way in enumerate(known)}
    return {
        "ids": list(numbers.values()),
        "parents": [numbers[way[:-1]] if way else "" for way in known],
        "labels": [html.escape(label) for label, _, _ in known.values()],
        "values": [times[way] / 1000 for way in known],
        "customdata": [
            [html.escape(about), 100 * times[way] / profile.call_us]
            for way, (_, _, about) in known.items()
        ],
        "marker": {"colors": [_COLORS[what] for _, what, _ in known.values()]},
        "branchvalues": "total",
        "sort": False,
        "tiling": {"orientation": "v"},
        "texttemplate": "%{label}<br>%{value:.3f} ms",
        "hovertemplate": (
            "<b>%{label}</b><br>%{customdata[0]}<br>%{value:.3f} ms, %{customdata[1]:.1f} %"
            "<extra></extra>"
        ),
    }


def _table(table: Table) -> str:
    heads = "".join(f"<th>{each}</th>" for each in ("", *HEADS))
    rows = "".join(
        "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>"
        for row in table.rows
    )
    return f"<h2>{html.escape(table.title)}</h2><table><tr>{heads}</tr>{rows}</table>"
