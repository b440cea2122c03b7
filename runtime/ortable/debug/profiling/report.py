"""Define the result of `ortable.profile`; format it as text, JSON, Chrome trace or HTML page."""

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
    """A row of a table: per call, `us` microseconds and `runs` of kernels or torch operators."""

    name: str
    us: float
    runs: float = 0.0


@dataclass(frozen=True)
class NodeTime:
    """A node that ONNX Runtime ran, or an operator that torch ran (`provider` "torch").

    `graph` is an index of `Profile.graphs`, `kernel` the ONNX operator of the node (or torch's),
    `operator` the ATen operators that it computes, and `module` a dotted path (empty for the root).
    `us` are microseconds per call without the nodes in subgraphs of the node, `runs` the runs per
    call. Calls by torch of one operator on one line are a single node. `results` has the first
    results of the original nodes, other than constants, whose type is a part of `kernel` (for
    FusedConv, of the Conv), or of all if there is none. A result of a local function begins with
    the path of the calling module and a slash.
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
    """A module of a graph: `us` microseconds per call with its submodules, `own_us` without them.

    `graph` is an index of `Profile.graphs`. The path is empty for the root; `kind` is the class
    name, or empty if unknown. `runs` includes submodules.
    """

    graph: int
    path: str
    kind: str
    us: float
    own_us: float
    runs: float

    @property
    def depth(self) -> int:
        """The number of modules around the module, with the root: 2 for `layers.0`."""
        return len(self.path.split(".")) if self.path else 0


@dataclass(frozen=True)
class GraphTime:
    """The times of a compiled graph.

    `number`, `kind` ("inference", "forward", "backward" or "torch") and `where` are those of
    `record.GraphRecord`. Times are microseconds per call: `kernels_us` in kernels and operators of
    torch, `session_us` in sessions outside of kernels, `torch_us` in torch outside of operators.
    """

    number: int
    kind: str
    where: str
    kernels_us: float
    session_us: float
    torch_us: float

    @property
    def label(self) -> str:
        """The name in tables: `graph 1 (inference) of Net.forward (net.py:12)`."""
        if not self.number:
            return f"{self.kind} of {self.where}"
        return f"graph {self.number} ({self.kind}) of {self.where}"


@dataclass(frozen=True)
class Step:
    """An interval of one call, which starts `begin_us` microseconds after the start of the call.

    `what` is "session", "partition", "torch", "backward", "kernel", or "operator" for an operator
    of torch. `graph` is an index of `Profile.graphs`, or -1 for "backward". `node` is the index of
    a kernel or an operator in `Profile.nodes`, else -1.
    """

    what: str
    graph: int
    thread: int
    begin_us: float
    us: float
    node: int = -1


@dataclass(frozen=True)
class Profile:
    """The times of `model(*args)` by module, line, operator and kernel; prints as text.

    All times are means in microseconds per call, without the fastest and the slowest quarter of the
    calls. In every table, the times of kernels and of `rest` add up to `call_us`:
    `sum(row.us for row in [*profile.lines, *profile.rest])`.

    Attributes:
        model: name of the model.
        calls: number of measured calls.
        counted: number of calls in the means, without the fastest and the slowest quarter.
        call_us: time of a call with the profiler on.
        plain_us: time of a call in the same sessions with the profiler off.
        graphs: the graphs that ran.
        nodes: the nodes that ONNX Runtime ran, and the operators that torch ran.
        modules: times by module, with submodules, in the order of the first runs.
        lines: times by source line, the slowest first.
        operators: times by ATen operator; "aten::addmm + aten::relu" for a fusion.
        kernels: times by kernel and execution provider, which is "torch" for operators of torch.
        rest: times outside of kernels: in sessions, in torch, in Python.
        timeline: the events of the call of median time.
        timeline_us: the time of that call.
        notes: remarks.
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
            rows: number of rows of a table; one more row sums the others. Modules that take less
                than 1 % of the call have no row.
        """
        parts = [format_head(self), *(f"  {note}" for note in self.notes)]
        for table in make_tables(self, rows):
            parts += ["", *format_table(table)]
        return "\n".join(parts)

    def as_dict(self) -> dict[str, Any]:
        """Convert to dicts, lists and scalars, without the timeline; see docs/profiling.md."""
        plain = asdict(self)
        del plain["timeline"], plain["timeline_us"]
        return {"version": 1, **plain}

    def json(self, indent: int | None = 2) -> str:
        """Format `as_dict` as JSON.

        Args:
            indent: spaces per level; None for a single line.
        """
        return json.dumps(self.as_dict(), indent=indent)

    def trace(self) -> dict[str, Any]:
        """Return the call of median time as a Chrome trace, in microseconds.

        Events of modules enclose those of their kernels.
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
            OrtableError: plotly is not installed: `pip install 'ortable[profile]'`.
        """
        write_file(Path(path), format_html(self).encode())


# -- the rows


def rows_by(nodes: Iterable[NodeTime], name: Callable[[NodeTime], str]) -> tuple[Row, ...]:
    """Sum the times and runs of nodes with equal `name(node)`; sort by time, the largest first."""
    times: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
    for node in nodes:
        row = times[name(node)]
        row[0] += node.us
        row[1] += node.runs
    rows = [Row(key, us, runs) for key, (us, runs) in times.items()]
    return tuple(sorted(rows, key=lambda row: -row.us))


def module_rows(
    graphs: Sequence[GraphTime],
    nodes: Sequence[NodeTime],
    classes: Mapping[tuple[int, str], str],
) -> tuple[ModuleTime, ...]:
    """List the modules of each graph, each module before its submodules.

    Args:
        graphs: the graphs.
        nodes: the nodes of all graphs.
        classes: class names by graph index and module path, as far as they are known.
    """
    rows: list[ModuleTime] = []
    for graph_index in range(len(graphs)):
        total_us: dict[str, float] = {"": 0.0}
        own_us: dict[str, float] = defaultdict(float)
        runs: dict[str, float] = defaultdict(float)
        for node in nodes:
            if node.graph != graph_index:
                continue
            own_us[node.module] += node.us
            for path in _path_prefixes(node.module):
                total_us[path] = total_us.get(path, 0.0) + node.us
                runs[path] += node.runs
        rows += [
            ModuleTime(
                graph_index, p, classes.get((graph_index, p), ""), total_us[p], own_us[p], runs[p]
            )
            for p in _tree_order(total_us)
        ]
    return tuple(rows)


def shared_parts(paths: Iterable[Sequence[str]]) -> int:
    """Count the leading parts that all paths share: 1 for `[["a", "b"], ["a", "c"]]`."""
    columns = zip(*paths, strict=False)
    return sum(1 for _ in itertools.takewhile(lambda parts: len(set(parts)) == 1, columns))


def _path_prefixes(path: str) -> list[str]:
    """List the paths from the root to a module: `["", "layers", "layers.0"]` for `layers.0`."""
    parts = path.split(".") if path else []
    return [".".join(parts[:end]) for end in range(len(parts) + 1)]


def _tree_order(paths: Iterable[str]) -> list[str]:
    """Sort paths depth-first: siblings in the given order, but elements of a list by index.

    `paths` contains the modules around each module.
    """
    order = {path: position for position, path in enumerate(paths)}
    list_positions: dict[str, int] = {}  # position of the first element of each list of modules
    for path, position in order.items():
        parent, _, name = path.rpartition(".")
        if name.isdigit():
            list_positions.setdefault(parent, position)

    def sort_key(path: str) -> tuple[int, int]:
        parent, _, name = path.rpartition(".")
        return (list_positions[parent], int(name)) if name.isdigit() else (order[path], 0)

    return sorted(order, key=lambda path: [sort_key(prefix) for prefix in _path_prefixes(path)])


# -- tables


_MIN_SHARE = 0.01  # of the call; modules with less time have no row


@dataclass(frozen=True)
class Table:
    """A table to print: a title, and rows of a name followed by the cells under `HEADS`."""

    title: str
    rows: tuple[tuple[str, str, str, str], ...]


HEADS = ("ms", "%", "kernels")


def format_head(profile: Profile) -> str:
    """Format the first line: model, number of calls, time of a call with and without profiler."""
    calls = "1 call" if profile.calls == 1 else f"{profile.calls} calls"
    if profile.counted > 1:
        middle = "" if profile.counted == profile.calls else f"the middle {profile.counted} of "
        calls = f"the mean of {middle}{calls}"
    return (
        f"{profile.model}: {profile.call_us / 1000:.3f} ms a call ({calls}), "
        f"{profile.plain_us / 1000:.3f} ms without the profiler"
    )


def make_tables(profile: Profile, max_rows: int) -> list[Table]:
    """Make the four tables; each ends with the times outside of kernels and the time of the call.

    Args:
        profile: the profile.
        max_rows: the rows of a table before the row that sums the others, except by module.
    """
    rest_cells = [_make_cells(profile, row.name, row.us, row.runs) for row in profile.rest]
    total = _make_cells(profile, "the call", profile.call_us, sum(n.runs for n in profile.nodes))
    tables = [Table("by module", (*_module_cells(profile), *rest_cells, total))]
    for title, rows in (
        ("by source line", profile.lines),
        ("by ATen operator", profile.operators),
        ("by kernel", profile.kernels),
    ):
        cells = [
            _make_cells(profile, row.name, row.us, row.runs) for row in _limit_rows(rows, max_rows)
        ]
        tables.append(Table(title, (*cells, *rest_cells, total)))
    return tables


def _limit_rows(rows: Sequence[Row], max_rows: int) -> Sequence[Row]:
    if len(rows) <= max_rows + 1:  # a row that sums only one row would save nothing
        return rows
    remaining = rows[max_rows:]
    others = Row(
        f"{len(remaining)} more",
        sum(r.us for r in remaining),
        sum(r.runs for r in remaining),
    )
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


# categories of events; of events with equal begin and length, an earlier category encloses a later
_CATEGORIES = (
    "call", "backward", "torch", "partition", "session", "module", "operator", "kernel"
)  # fmt: skip
# kinds of steps; of steps with equal begin and length, an earlier kind encloses a later one
_NESTING = ("backward", "torch", "operator", "partition", "session", "kernel")


def make_trace(profile: Profile) -> dict[str, Any]:
    """Make the Chrome trace of the profile's timeline, with times in microseconds."""
    threads = _thread_indices(profile.timeline)
    names = [("process_name", 0, f"ortable: {profile.model}")]
    names += [("thread_name", index, f"thread {index}") for index in threads.values()]
    events = [
        {"ph": "M", "name": name, "pid": 1, "tid": tid, "args": {"name": text}}
        for name, tid, text in dict.fromkeys(names)
    ]
    arguments = {"calls": profile.calls}
    events.append(_make_event(profile.model, "call", 0.0, profile.timeline_us, 0, arguments))
    for thread, index in threads.items():
        steps = (step for step in profile.timeline if step.thread == thread)
        events += _thread_events(profile, steps, index)
    events.sort(key=_event_order)
    return {"traceEvents": events, "displayTimeUnit": "ms"}


def _thread_indices(timeline: Sequence[Step]) -> dict[int, int]:
    """Map thread ids to indices from 0; a thread with any step other than a kernel has index 0."""
    indices: dict[int, int] = {}
    for step in sorted(timeline, key=lambda step: step.what == "kernel"):
        indices.setdefault(step.thread, 0 if step.what != "kernel" else len(set(indices.values())))
    return indices


def _event_order(event: dict[str, Any]) -> tuple[Any, ...]:
    """Return the sort key: thread, then begin; an enclosing event is before the events in it."""
    path = str(event["args"].get("module", ""))
    category_index = _CATEGORIES.index(event["cat"]) if "cat" in event else -1
    return event["tid"], event.get("ts", -1.0), -event.get("dur", 0.0), category_index, len(path)


@dataclass
class _OpenStep:
    """A step that is open until `end`, its module path, and the open modules inside the step.

    `modules` are (name, begin) of nested modules; the innermost module is last.
    """

    end: float
    path: list[str]
    modules: list[tuple[str, float]] = field(default_factory=list)


def _thread_events(
    profile: Profile, steps: Iterable[Step], thread: int
) -> Iterator[dict[str, Any]]:
    """Yield the events of the steps of a thread, and events of the modules around them.

    Consecutive steps of a module share the event of the module.
    """
    open_steps = [_OpenStep(math.inf, [])]
    last_end = 0.0

    def close_modules(depth: int) -> Iterator[dict[str, Any]]:
        modules = open_steps[-1].modules
        while len(modules) > depth:
            path = [*open_steps[-1].path, *(name for name, _ in modules)]
            name, begin = modules.pop()
            yield _make_event(
                name, "module", begin, last_end - begin, thread, {"module": ".".join(path)}
            )

    def step_order(step: Step) -> tuple[float, float, int]:
        return step.begin_us, -step.us, _NESTING.index(step.what)

    for step in sorted(steps, key=step_order):
        while open_steps[-1].end <= step.begin_us:
            yield from close_modules(0)
            last_end = open_steps.pop().end
        name, arguments = _describe_step(profile, step)
        path = arguments["module"].split(".") if arguments.get("module") else []
        outer = open_steps[-1]
        is_inside = len(open_steps) > 1 and path[: len(outer.path)] == outer.path
        parts = path[len(outer.path) :] if is_inside else []
        shared = shared_parts([parts, [name for name, _ in outer.modules]])
        yield from close_modules(shared)
        outer.modules += [(name, step.begin_us) for name in parts[shared:]]
        yield _make_event(name, step.what, step.begin_us, step.us, thread, arguments)
        open_steps.append(_OpenStep(step.begin_us + step.us, path))
    while open_steps:
        yield from close_modules(0)
        last_end = open_steps.pop().end


def _describe_step(profile: Profile, step: Step) -> tuple[str, dict[str, str]]:
    """Return the name of a step and the metadata of its node."""
    if step.node < 0:
        return "backward" if step.graph < 0 else profile.graphs[step.graph].label, {}
    node = profile.nodes[step.node]
    fields = ("kernel", "provider", "module", "operator", "line")
    arguments = {"node": node.name, **{key: getattr(node, key) for key in fields}}
    return f"{node.kernel}: {node.operator}" if step.what == "kernel" else node.operator, arguments


def _make_event(
    name: str, category: str, begin: float, length: float, thread: int, arguments: dict[str, Any]
) -> dict[str, Any]:
    return {
        "ph": "X",
        "name": name,
        "cat": category,
        "pid": 1,
        "tid": thread,
        "ts": round(begin, 3),
        "dur": round(length, 3),
        "args": arguments,
    }


# -- the page


_COLORS = {
    "call": "#cfd8dc",
    "graph": "#90a4ae",
    "module": "#ffcc80",
    "kernel": "#e57373",
    "rest": "#b0bec5",
}
_TEXT_SIZE = {"minsize": 11, "mode": "hide"}  # plotly hides smaller text
_MAX_ROWS = 40  # of a table in the HTML page


def _flame_boxes(profile: Profile) -> Iterator[tuple[tuple[str, ...], str, str, float]]:
    """Yield the boxes of the flame graph: path from the root, kind, description, own microseconds.

    For each graph, its modules come first, in the order of the table, then kernels, then time
    outside of kernels.
    """
    for graph_index, graph in enumerate(profile.graphs):
        yield (graph.label,), "graph", graph.where, 0.0
        for module in profile.modules:
            parts = module.path.split(".") if module.path and module.graph == graph_index else []
            for depth in range(1, len(parts) + 1):
                yield (graph.label, *parts[:depth]), "module", ".".join(parts[:depth]), 0.0
        for node in profile.nodes:
            if node.graph == graph_index:
                is_torch = node.kernel == node.operator
                label = f"torch: {node.operator}" if is_torch else f"{node.kernel}: {node.operator}"
                description = f"{node.module or 'the root'}, {node.line or NO_LINE}"
                parts = node.module.split(".") if node.module else []
                yield (graph.label, *parts, label), "kernel", description, node.us
        for label, us in ((IN_SESSION, graph.session_us), (AROUND_TORCH, graph.torch_us)):
            if us:
                yield (graph.label, label), "rest", label, us
    for row in profile.rest:
        if row.name not in (IN_SESSION, AROUND_TORCH):  # these are boxes of their graphs
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
    """Format the profile as a standalone HTML page."""
    try:
        import plotly.graph_objects as go
        import plotly.io
    except ImportError as error:
        raise OrtableError(
            "The page of a profile needs the Python package 'plotly': install the extra with "
            "`pip install 'ortable[profile]'`. text(), json() and trace() do not need it."
        ) from error
    figure = go.Figure(go.Icicle(**_icicle_arguments(profile)))
    figure.update_layout(
        margin={"t": 10, "l": 0, "r": 0, "b": 10}, height=620, uniformtext=_TEXT_SIZE
    )
    figure_html = plotly.io.to_html(
        figure, include_plotlyjs=True, full_html=False, config={"displayModeBar": False}
    )
    return _PAGE.format(
        title=html.escape(f"{profile.model}: profile"),
        head=html.escape(format_head(profile)),
        notes="".join(f"<p>{html.escape(note)}</p>" for note in profile.notes),
        figure=figure_html,
        tables="".join(map(_table_html, make_tables(profile, _MAX_ROWS))),
    )


def _icicle_arguments(profile: Profile) -> dict[str, Any]:
    """Make the arguments of plotly's Icicle; the time of a box includes that of its children."""
    boxes: dict[tuple[str, ...], tuple[str, str, str]] = {}
    boxes[()] = profile.model, "call", "the call"
    times: dict[tuple[str, ...], float] = defaultdict(float)
    for path, kind, description, us in _flame_boxes(profile):
        boxes.setdefault(path, (path[-1], kind, description))
        for depth in range(1, len(path) + 1):
            times[path[:depth]] += us
    times[()] = profile.call_us
    ids = {path: str(index) for index, path in enumerate(boxes)}
    return {
        "ids": list(ids.values()),
        "parents": [ids[path[:-1]] if path else "" for path in boxes],
        "labels": [html.escape(label) for label, _, _ in boxes.values()],
        "values": [times[path] / 1000 for path in boxes],
        "customdata": [
            [html.escape(description), 100 * times[path] / profile.call_us]
            for path, (_, _, description) in boxes.items()
        ],
        "marker": {"colors": [_COLORS[kind] for _, kind, _ in boxes.values()]},
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
