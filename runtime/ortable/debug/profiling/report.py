"""What `profile` returns: a Profile of times by module, source line, ATen operator and kernel, as
text, as JSON, as files. Made by `call`; read by users and by the shell."""

from __future__ import annotations

import itertools
import json
import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

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
        from .trace import trace_of

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
        from .page import html_of

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
