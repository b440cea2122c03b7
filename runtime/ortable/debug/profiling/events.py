"""What ran in the calls of a Recording, as spans of time. In comes a Recording, out come kernels
joined with what they were made for, runs of sessions, operators of torch and what is around them.
Called by `account`."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from .join import Origin, origins_of
from .record import Recording, SessionRecord, TorchCall, Window

IN_TORCH = "torch"  # the provider of torch's own operators
# An instant belongs to the highest that runs: a kernel, a session, the call of a partition, an
# operator of torch, a graph of which torch runs a part, autograd.
KERNEL, RUN, PART, OPERATOR, TORCH, BACKWARD = 5, 4, 3, 2, 1, 0
_SUFFIX = "_kernel_time"


@dataclass(frozen=True)
class KernelKey:
    """A node of a session, or operators of torch that are alike: the graph, the name, the operator,
    where it runs, what it is for."""

    graph: int
    name: str
    kernel: str
    provider: str
    origin: Origin


@dataclass(frozen=True, eq=False)
class Span:
    """Something that ran from `begin` to `end`, nanoseconds of the system's clock, on a thread: a
    kernel or an operator of torch (with a `key`), a session, the call of a partition, a graph of
    which torch runs a part, or a backward (`graph` -1)."""

    begin: int
    end: int
    thread: int
    rank: int
    graph: int
    key: KernelKey | None = None


def spans_of(recording: Recording) -> list[Span]:
    """All of them, in no order."""
    spans = [span for session in recording.sessions for span in _spans(session)]
    spans += [Span(*window, 0, TORCH, graph) for graph, window in recording.torch]
    spans += [Span(*window, 0, PART, graph) for graph, window in recording.parts]
    spans += [Span(*window, 0, BACKWARD, -1) for window in recording.backward]
    spans += _operators(recording)
    return spans


def _spans(session: SessionRecord) -> Iterable[Span]:
    """Kernels and runs of a session."""
    find = origins_of(session.model, session.optimized)
    keys: dict[tuple[str, str, str], KernelKey] = {}
    for event in session.events:
        name, about = event.get("name", ""), event.get("args") or {}
        if event.get("ph") != "X":
            continue
        begin = session.start + 1000 * int(event["ts"])
        end, thread = begin + 1000 * int(event["dur"]), int(event["tid"])
        if event.get("cat") == "Session" and name == "model_run":
            yield Span(begin, end, thread, RUN, session.graph)
        elif event.get("cat") == "Node" and name.endswith(_SUFFIX):
            op_type, provider = about.get("op_name", ""), about.get("provider", "")
            stem = name.removesuffix(_SUFFIX)
            key = keys.get((stem, op_type, provider))
            if key is None:
                kernel, origin = find(stem, op_type)
                key = KernelKey(session.graph, stem, kernel, provider, origin)
                keys[stem, op_type, provider] = key
            yield Span(begin, end, thread, KERNEL, session.graph, key)


def _operators(recording: Recording) -> Iterator[Span]:
    """The operators that torch ran, each with its graph; those that it ran for a session, to lay
    out a tensor, are the session's."""
    found = _outside(recording.operators, [window for _, window in recording.parts])
    found.sort(key=_begin)
    for graph, window in recording.torch:
        first, last = (bisect_left(found, time, key=_begin) for time in window)
        yield from _joined(graph, found[first:last], recording.graphs[graph].torch)
    if recording.backward_graph is not None:
        rest = _outside(found, [window for _, window in recording.torch])
        yield from _joined(recording.backward_graph, rest, ())


def _begin(operator: tuple[str, int, int]) -> int:
    return operator[1]


def _outside(
    operators: Iterable[tuple[str, int, int]], windows: Iterable[Window]
) -> list[tuple[str, int, int]]:
    """The operators that begin in none of some windows, of which no two overlap."""
    order = sorted(windows)
    begins = [begin for begin, _ in order]

    def is_inside(time: int) -> bool:
        place = bisect_right(begins, time)
        return place > 0 and time < order[place - 1][1]

    return [each for each in operators if not is_inside(each[1])]


def _joined(
    graph: int, operators: Sequence[tuple[str, int, int]], calls: Sequence[TorchCall]
) -> Iterator[Span]:
    """Spans of operators. The calls of one operator that the graph has are those that ran, in their
    order, where they are as many; else nothing tells which is which."""
    known: dict[str, list[TorchCall]] = defaultdict(list)
    for call in calls:
        known[call.operator].append(call)
    ran = Counter(name for name, _, _ in operators)
    seen: Counter[str] = Counter()
    for name, begin, end in operators:
        origin, place = Origin(operator=name), seen[name]
        if len(known[name]) == ran[name]:
            origin = Origin(known[name][place].module, name, known[name][place].line)
        seen[name] += 1
        yield Span(begin, end, 0, OPERATOR, graph, KernelKey(graph, name, name, IN_TORCH, origin))
