"""The `Profile` that `profile` returns, formatted as text, JSON, a Chrome trace or an HTML page."""

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
    """A row of a table: microseconds a call, and the number of kernels (0: none)."""

    name: str
    us: float
    runs: float = 0.0


@dataclass(frozen=True)
class NodeTime:
    """A node that ONNX Runtime ran, or an operator that torch ran (`provider` "torch").

    `graph` is an index of `Profile.graphs`, `kernel` its operator, `module` a dotted path (empty:
    the root), `us` microseconds a call without those of the nodes inside it, `runs` how often it
    ran in a call. Torch's calls of one line are together. `results` are those of the model's nodes
    that became it, the first of each; in a local function, after the path of the module that calls
    it and a slash.
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
    """A module of a graph: `us` microseconds a call with its submodules, `own_us` without them.

    The path is empty for the graph itself; `kind` is the class where it is known.
    """

    graph: int
    path: str
    kind: str
    us: float
    own_us: float
    runs: float

    @property
    def depth(self) -> int:
        """Return the number of modules around it."""
        return len(self.path.split(".")) if self.path else 0


@dataclass(frozen=True)
class GraphTime:
    """A graph that torch compiled, the `number`-th of dynamo's.

    Its kind is "inference", "forward", "backward" or "torch"; `where` is its frame. Times are
    microseconds a call: in kernels and operators of torch, in its sessions outside of kernels, and
    in torch around its operators.
    """

    number: int
    kind: str
    where: str
    kernels_us: float
    session_us: float
    torch_us: float

    @property
    def label(self) -> str:
        """Format as `graph 1 (inference) of Net.forward (net.py:12)`."""
        if not self.number:
            return f"{self.kind} of {self.where}"
        return f"graph {self.number} ({self.kind}) of {self.where}"


@dataclass(frozen=True)
class Step:
    """Something that ran in one call, `begin_us` microseconds after the call began.

    `what` is "session", "partition", "torch", "backward", "kernel", or "operator" for one of
    torch's; `node` is the index of the latter two in `Profile.nodes`.
    """

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
        """Format the tables as text, in milliseconds.

        Args:
            rows: how many rows a table has; the others are one row. Modules that take less than
                1 % of the call are in those around them only.
        """
        parts = [format_head(self), *(f"  {note}" for note in self.notes)]
        for table in make_tables(self, rows):
            parts += ["", *format_table(table)]
        return "\n".join(parts)

    def as_dict(self) -> dict[str, Any]:
        """Convert to plain values, without the timeline; docs/profiling.md has the fields."""
        plain = asdict(self)
        del plain["timeline"], plain["timeline_us"]
        return {"version": 1, **plain}

    def json(self, indent: int | None = 2) -> str:
        """Format `as_dict` as JSON.

        Args:
            indent: spaces of a step; None for one line.
        """
        return json.dumps(self.as_dict(), indent=indent)

    def trace(self) -> dict[str, Any]:
        """Return the call of median length as a Chrome trace, in microseconds.

        Modules are above their kernels.
        """
        return make_trace(self)

    def save_json(self, path: str | os.PathLike[str]) -> None:
        """Write `json()`.

        Args:
            path: the file.
        """
        write_file(Path(path), f"{self.json()}\n".encode())

    def save_trace(self, path: str | os.PathLike[str]) -> None:
        """Write `trace()` for chrome://tracing and https://ui.perfetto.dev.

        Args:
            path: the file.
        """
        write_file(Path(path), f"{json.dumps(self.trace())}\n".encode())

    def save_html(self, path: str | os.PathLike[str]) -> None:
        """Write a standalone HTML page with a flame graph of the modules and all tables.

        Args:
            path: the file.

        Raises:
            OrtableError: plotly is absent: `pip install 'ortable[profile]'`.
        """
        write_file(Path(path), format_html(self).encode())


# -- the rows


def rows_by(nodes: Iterable[NodeTime], name: Callable[[NodeTime], str]) -> tuple[Row, ...]:
    """Sum the nodes' times by a name, the largest first."""
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
    """List the modules of each graph, a module before those inside it."""
    rows: list[ModuleTime] = []
    for number in range(len(graphs)):
        total: dict[str, float] = {"": 0.0}
        own: dict[str, float] = defaultdict(float)
        runs: dict[str, float] = defaultdict(float)
        for node in nodes:
            if node.graph != number:
                continue
            own[node.module] += node.us
            for path in _path_prefixes(node.module):
                total[path] = total.get(path, 0.0) + node.us
                runs[path] += node.runs
        rows += [
            ModuleTime(number, p, kinds.get((number, p), ""), total[p], own[p], runs[p])
            for p in _tree_order(total)
        ]
    return tuple(rows)


def shared_parts(paths: Iterable[Sequence[str]]) -> int:
    """Count the leading parts that all paths share."""
    columns = zip(*paths, strict=False)
    return sum(1 for _ in itertools.takewhile(lambda parts: len(set(parts)) == 1, columns))


def _path_prefixes(path: str) -> list[str]:
    """List the root, the modules around a module, and itself."""
    parts = path.split(".") if path else []
    return [".".join(parts[:end]) for end in range(len(parts) + 1)]


def _tree_order(paths: Iterable[str]) -> list[str]:
    """Sort paths so that each follows the module around it, and list elements are by index."""
    order = {path: number for number, path in enumerate(paths)}
    first: dict[str, int] = {}  # element of a list
    for path, number in order.items():
        around, _, name = path.rpartition(".")
        if name.isdigit():
            first.setdefault(around, number)

    def sort_key(path: str) -> tuple[int, int]:
        around, _, name = path.rpartition(".")
        return (first[around], int(name)) if name.isdigit() else (order[path], 0)

    return sorted(order, key=lambda path: [sort_key(prefix) for prefix in _path_prefixes(path)])


# -- tables


_MIN_SHARE = 0.01  # of the call: modules below it are not in a table


@dataclass(frozen=True)
class Table:
    """A printed table: its title, and rows of a name, milliseconds, per cent and a count."""

    title: str
    rows: tuple[tuple[str, str, str, str], ...]


HEADS = ("ms", "%", "kernels")


def format_head(profile: Profile) -> str:
    """Format the first line."""
    calls = "1 call" if profile.calls == 1 else f"{profile.calls} calls"
    if profile.counted > 1:
        middle = "" if profile.counted == profile.calls else f"the middle {profile.counted} of "
        calls = f"the mean of {middle}{calls}"
    return (
        f"{profile.model}: {profile.call_us / 1000:.3f} ms a call ({calls}), "
        f"{profile.plain_us / 1000:.3f} ms without the profiler"
    )


def make_tables(profile: Profile, max_rows: int) -> list[Table]:
    """Make the four tables; rows for time in no kernel end each, so that all have the same sum."""
    rest = [_make_cells(profile, row.name, row.us, row.runs) for row in profile.rest]
    total = _make_cells(profile, "the call", profile.call_us, sum(n.runs for n in profile.nodes))
    tables = [Table("by module", (*_module_cells(profile), *rest, total))]
    for title, rows in (
        ("by source line", profile.lines),
        ("by ATen operator", profile.operators),
        ("by kernel", profile.kernels),
    ):
        cells = [
            _make_cells(profile, row.name, row.us, row.runs) for row in _limit_rows(rows, max_rows)
        ]
        tables.append(Table(title, (*cells, *rest, total)))
    return tables


def _limit_rows(rows: Sequence[Row], max_rows: int) -> Sequence[Row]:
    if len(rows) <= max_rows + 1:
        return rows
    last = rows[max_rows:]
    others = Row(f"{len(last)} more", sum(r.us for r in last), sum(r.runs for r in last))
    return [*rows[:max_rows], others]


def _module_cells(profile: Profile) -> Iterator[tuple[str, str, str, str]]:
    for row in profile.modules:
        if row.path and row.us < _MIN_SHARE * profile.call_us:
            continue
        name = row.path.rpartition(".")[2] or profile.graphs[row.graph].label
        name = "  " * row.depth + name + (f" ({row.kind})" if row.kind and row.path else "")
        yield _make_cells(profile, name, row.us, row.runs)


def _make_cells(profile: Profile, name: str, us: float, runs: float) -> tuple[str, str, str, str]:
    share = 100 * us / profile.call_us if profile.call_us else 0.0
    return name, f"{us / 1000:.3f}", f"{share:.1f}", f"{runs:g}" if runs else ""


_MAX_NAME_WIDTH = 100


def format_table(table: Table) -> Iterator[str]:
    """Yield the lines of a table."""
    names = [_shorten(row[0]) for row in table.rows]
    width = max(len(table.title), *map(len, names))
    yield f"{table.title:{width}} {HEADS[0]:>10} {HEADS[1]:>6} {HEADS[2]:>8}"
    for name, (_, *numbers) in zip(names, table.rows, strict=True):
        yield f"{name:{width}} {numbers[0]:>10} {numbers[1]:>6} {numbers[2]:>8}".rstrip()


def _shorten(name: str) -> str:
    return name if len(name) <= _MAX_NAME_WIDTH else f"{name[: _MAX_NAME_WIDTH - 3]}..."


# -- the trace


_CATEGORIES = (
    "call", "backward", "torch", "partition", "session", "module", "operator", "kernel"
)  # fmt: skip
# of steps that are as long: what torch runs an operator for lasts around a session
_NESTING = ("backward", "torch", "operator", "partition", "session", "kernel")


def make_trace(profile: Profile) -> dict[str, Any]:
    """Make the trace, times in microseconds."""
    threads = _thread_indices(profile.timeline)
    names = [("process_name", 0, f"ortable: {profile.model}")]
    names += [("thread_name", index, f"thread {index}") for index in threads.values()]
    events = [
        {"ph": "M", "name": name, "pid": 1, "tid": tid, "args": {"name": text}}
        for name, tid, text in dict.fromkeys(names)
    ]
    about = {"calls": profile.calls}
    events.append(_make_event(profile.model, "call", 0.0, profile.timeline_us, 0, about))
    for thread, index in threads.items():
        steps = (step for step in profile.timeline if step.thread == thread)
        events += _thread_events(profile, steps, index)
    events.sort(key=_event_order)
    return {"traceEvents": events, "displayTimeUnit": "ms"}


def _thread_indices(timeline: Sequence[Step]) -> dict[int, int]:
    """Number the threads; those of graphs that torch runs a part of are the first's."""
    indices: dict[int, int] = {}
    for step in sorted(timeline, key=lambda step: step.what == "kernel"):
        indices.setdefault(step.thread, 0 if step.what != "kernel" else len(set(indices.values())))
    return indices


def _event_order(event: dict[str, Any]) -> tuple[Any, ...]:
    """Sort an enclosing event before the events in it, also where both are as long."""
    path = str(event["args"].get("module", ""))
    inner = _CATEGORIES.index(event["cat"]) if "cat" in event else -1
    return event["tid"], event.get("ts", -1.0), -event.get("dur", 0.0), inner, len(path)


@dataclass
class _OpenStep:
    """A step that is open until `end`, its module path, and the open modules inside it.

    The innermost module is last; each has its begin.
    """

    end: float
    path: list[str]
    modules: list[tuple[str, float]] = field(default_factory=list)


def _thread_events(
    profile: Profile, steps: Iterable[Step], thread: int
) -> Iterator[dict[str, Any]]:
    """Yield the events of the steps of a thread, with those of the modules around them."""
    open_steps = [_OpenStep(math.inf, [])]
    last = 0.0

    def close_modules(depth: int) -> Iterator[dict[str, Any]]:
        modules = open_steps[-1].modules
        while len(modules) > depth:
            path = [*open_steps[-1].path, *(name for name, _ in modules)]
            name, begin = modules.pop()
            yield _make_event(
                name, "module", begin, last - begin, thread, {"module": ".".join(path)}
            )

    def step_order(step: Step) -> tuple[float, float, int]:
        return step.begin_us, -step.us, _NESTING.index(step.what)

    for step in sorted(steps, key=step_order):
        while open_steps[-1].end <= step.begin_us:
            yield from close_modules(0)
            last = open_steps.pop().end
        name, about = _describe_step(profile, step)
        path = about["module"].split(".") if about.get("module") else []
        outer = open_steps[-1]
        inside = len(open_steps) > 1 and path[: len(outer.path)] == outer.path
        parts = path[len(outer.path) :] if inside else []
        shared = shared_parts([parts, [name for name, _ in outer.modules]])
        yield from close_modules(shared)
        outer.modules += [(name, step.begin_us) for name in parts[shared:]]
        yield _make_event(name, step.what, step.begin_us, step.us, thread, about)
        open_steps.append(_OpenStep(step.begin_us + step.us, path))
    while open_steps:
        yield from close_modules(0)
        last = open_steps.pop().end


def _describe_step(profile: Profile, step: Step) -> tuple[str, dict[str, str]]:
    """Return the name of a step and the metadata of its node."""
    if step.node < 0:
        return "backward" if step.graph < 0 else profile.graphs[step.graph].label, {}
    node = profile.nodes[step.node]
    fields = ("kernel", "provider", "module", "operator", "line")
    about = {"node": node.name, **{key: getattr(node, key) for key in fields}}
    return f"{node.kernel}: {node.operator}" if step.what == "kernel" else node.operator, about


def _make_event(
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
_MAX_ROWS = 40  # of a table in the page


def _flame_boxes(profile: Profile) -> Iterator[tuple[tuple[str, ...], str, str, float]]:
    """Yield the boxes of the flame graph: path from the call, kind, description, own microseconds.

    Modules are in the order of the table, then kernels, and time in no kernel.
    """
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


def format_html(profile: Profile) -> str:
    """Format the page."""
    try:
        import plotly.graph_objects as go
        import plotly.io
    except ImportError as error:
        raise OrtableError(
            "The page of a profile needs the Python package 'plotly': install the extra with "
            "`pip install 'ortable[profile]'`. text(), json() and trace() need nothing."
        ) from error
    figure = go.Figure(go.Icicle(**_icicle_arguments(profile)))
    figure.update_layout(
        margin={"t": 10, "l": 0, "r": 0, "b": 10}, height=620, uniformtext=_READABLE
    )
    drawn = plotly.io.to_html(
        figure, include_plotlyjs=True, full_html=False, config={"displayModeBar": False}
    )
    return _PAGE.format(
        title=html.escape(f"{profile.model}: profile"),
        head=html.escape(format_head(profile)),
        notes="".join(f"<p>{html.escape(note)}</p>" for note in profile.notes),
        figure=drawn,
        tables="".join(map(_table_html, make_tables(profile, _MAX_ROWS))),
    )


def _icicle_arguments(profile: Profile) -> dict[str, Any]:
    """Convert the boxes to plotly's lists of equal length; a box includes those above it."""
    boxes: dict[tuple[str, ...], tuple[str, str, str]] = {}
    boxes[()] = profile.model, "call", "the call"
    times: dict[tuple[str, ...], float] = defaultdict(float)
    for path, what, about, us in _flame_boxes(profile):
        boxes.setdefault(path, (path[-1], what, about))
        for depth in range(1, len(path) + 1):
            times[path[:depth]] += us
    times[()] = profile.call_us
    numbers = {path: str(number) for number, path in enumerate(boxes)}
    return {
        "ids": list(numbers.values()),
        "parents": [numbers[path[:-1]] if path else "" for path in boxes],
        "labels": [html.escape(label) for label, _, _ in boxes.values()],
        "values": [times[path] / 1000 for path in boxes],
        "customdata": [
            [html.escape(about), 100 * times[path] / profile.call_us]
            for path, (_, _, about) in boxes.items()
        ],
        "marker": {"colors": [_COLORS[what] for _, what, _ in boxes.values()]},
        "branchvalues": "total",
        "sort": False,
        "tiling": {"orientation": "v"},
        "texttemplate": "%{label}<br>%{value:.3f} ms",
        "hovertemplate": (
            "<b>%{label}</b><br>%{customdata[0]}<br>%{value:.3f} ms, %{customdata[1]:.1f} %"
            "<extra></extra>"
        ),
    }


def _table_html(table: Table) -> str:
    heads = "".join(f"<th>{heading}</th>" for heading in ("", *HEADS))
    rows = "".join(
        "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>"
        for row in table.rows
    )
    return f"<h2>{html.escape(table.title)}</h2><table><tr>{heads}</tr>{rows}</table>"
