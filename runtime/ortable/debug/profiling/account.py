"""Where the time of calls went. In comes a Recording, out come times by node and by graph, whose
sum is that of the calls, and the events of one call as they followed one another. Called by `call`.

Every instant of a call belongs to the innermost kernel that runs then; several that run on several
threads at the same time share it. Where no kernel runs it belongs to the session that runs; else,
in a graph of which torch runs a part, to Python where a session is called, to an operator of torch,
or to what is around these; else to autograd's backward, else to Python. So nothing is counted
twice, and nothing is lost, by construction."""

from __future__ import annotations

import statistics
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from ortable.errors import ProviderError

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


@dataclass(frozen=True)
class Accounts:
    """Nanoseconds a call, on average: of nodes, with how often each ran; of sessions outside of
    kernels and of torch's operators, by graph; of autograd's backward; of Python; of the `calls`
    that count, with the profiler and without. `timeline` has the spans of the call whose time is in
    the middle, `window` when that began and ended."""

    nodes: dict[KernelKey, tuple[float, float]]
    sessions: dict[int, float]
    torch: dict[int, float]
    backward: float
    python: float
    calls: int
    call: float
    plain: float
    window: Window
    timeline: tuple[Span, ...]


def accounts_of(recording: Recording) -> Accounts:
    """
    :raises ProviderError: no run that ONNX Runtime noted is in a call
    """
    spans = spans_of(recording)
    spans.sort(key=lambda span: span.begin)
    begins = [span.begin for span in spans]
    inside = [
        spans[bisect_left(begins, begin) : bisect_left(begins, end)]
        for begin, end in recording.calls
    ]
    _check_clock(spans, inside)
    lengths = [end - begin for begin, end in recording.calls]
    kept = _middle_half(lengths)
    nodes: dict[KernelKey, list[float]] = defaultdict(lambda: [0.0, 0.0])
    others: dict[tuple[int, int], float] = defaultdict(float)  # by rank and graph
    python, count = 0.0, len(kept)
    for number in kept:
        found = inside[number]
        taken, idle = shares(found, recording.calls[number])
        python += idle / count
        for span, time in zip(found, taken, strict=True):
            if span.key is not None:
                nodes[span.key][0] += time / count
                nodes[span.key][1] += 1
            else:
                others[span.rank, span.graph] += time / count
    return Accounts(
        nodes={key: (time, runs / count) for key, (time, runs) in nodes.items()},
        sessions={graph: time for (rank, graph), time in others.items() if rank == RUN},
        torch={graph: time for (rank, graph), time in others.items() if rank == TORCH},
        backward=others[BACKWARD, -1],
        python=python + sum(time for (rank, _), time in others.items() if rank == PART),
        calls=count,
        call=statistics.fmean(lengths[number] for number in kept),
        plain=statistics.fmean(recording.plain[n] for n in _middle_half(recording.plain)),
        window=recording.calls[kept[count // 2]],
        timeline=tuple(inside[kept[count // 2]]),
    )


def _middle_half(lengths: Sequence[int]) -> list[int]:
    """The places of the calls whose times are in the middle, in the order of their times: without
    the fastest and the slowest quarter, which something else may have disturbed."""
    order = sorted(range(len(lengths)), key=lengths.__getitem__)
    cut = len(order) // 4
    return order[cut : len(order) - cut]


def _check_clock(spans: Sequence[Span], inside: Iterable[Sequence[Span]]) -> None:
    """The profiler's clock must be the system's: it is another one where no run is in a call."""
    runs = [span for span in spans if span.rank == RUN]
    if runs and not any(span.rank == RUN for found in inside for span in found):
        raise ProviderError(
            "ONNX Runtime noted runs of the sessions, and none within a call: its profiler has "
            "another clock than this system, or the clock was set while the calls ran. Try again."
        )


def shares(spans: Sequence[Span], window: Window) -> tuple[list[float], float]:
    """How long each span is the one that an instant of the window belongs to, and how long none is.
    All of it together is the length of the window.

    :param spans: in any order; what is outside of the window does not count
    """
    taken = [0.0] * len(spans)
    idle = 0.0
    points: list[tuple[int, int, int, int]] = []  # closing ones first, then the longer ones
    for number, span in enumerate(spans):
        begin, end = max(span.begin, window[0]), min(span.end, window[1])
        if begin < end:
            points += [(begin, 1, -end, number), (end, 0, 0, number)]
    stacks: dict[tuple[int, int], list[int]] = defaultdict(list)  # open ones by rank and thread
    last = window[0]
    for time, opens, _, number in [*sorted(points), (window[1], 0, 0, -1)]:
        if time > last:
            owners = _owners(stacks)
            for owner in owners:
                taken[owner] += (time - last) / len(owners)
            if not owners:
                idle += time - last
            last = time
        if number >= 0:
            stack = stacks[spans[number].rank, spans[number].thread]
            stack.append(number) if opens else stack.remove(number)
    return taken, idle


def _owners(stacks: dict[tuple[int, int], list[int]]) -> list[int]:
    """The innermost open spans of the highest rank, one a thread."""
    for rank in (KERNEL, RUN, PART, OPERATOR, TORCH, BACKWARD):
        found = [stack[-1] for (each, _), stack in stacks.items() if each == rank and stack]
        if found:
            return found
    return []
