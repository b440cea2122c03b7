"""Attribute the time of recorded calls to nodes and graphs; the parts add up to the calls.

Every instant of a call belongs to the first of these that runs then: the innermost kernel, a
session, the call of a partition (counted as Python), an operator of torch, a graph that torch runs
in part or entirely, autograd's backward. Kernels that run at the same time on several threads share
the instant. If nothing of this runs, the instant belongs to Python. So no time is counted twice or
lost.
"""

from __future__ import annotations

import statistics
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from ortable.errors import ProviderError

from .join import KernelOrigin, make_origin_finder
from .record import Recording, SessionRecord, TorchCall, Window

TORCH_PROVIDER = "torch"  # the provider of torch's own operators
# Ranks of spans. An instant belongs to the running span of the highest rank: a kernel, a session,
# the call of a partition, an operator of torch, a graph that torch runs, autograd's backward.
KERNEL, SESSION_RUN, PARTITION_CALL, OPERATOR, TORCH, BACKWARD = 5, 4, 3, 2, 1, 0
_KERNEL_SUFFIX = "_kernel_time"


@dataclass(frozen=True)
class KernelKey:
    """A node of a session, or the calls by torch of one operator on one source line."""

    graph: int
    name: str
    kernel: str
    provider: str
    origin: KernelOrigin


@dataclass(frozen=True, eq=False)
class Span:
    """An interval on a thread, in nanoseconds of the system's clock.

    `rank` is the kind: a kernel or an operator of torch (both have a `key`), a run of a session,
    the call of a partition, a run of a graph by torch, or a backward (`graph` -1).
    """

    begin: int
    end: int
    thread: int
    rank: int
    graph: int
    key: KernelKey | None = None


def collect_spans(recording: Recording) -> list[Span]:
    """Collect all spans of a recording, in no particular order."""
    spans = [span for session in recording.sessions for span in _session_spans(session)]
    spans += [Span(*window, 0, TORCH, graph) for graph, window in recording.torch]
    spans += [Span(*window, 0, PARTITION_CALL, graph) for graph, window in recording.parts]
    spans += [Span(*window, 0, BACKWARD, -1) for window in recording.backward]
    spans += _operator_spans(recording)
    return spans


def _session_spans(session: SessionRecord) -> Iterable[Span]:
    """Yield the spans of a session: its kernels and its runs."""
    find_origin = make_origin_finder(session.model, session.optimized)
    keys: dict[tuple[str, str, str], KernelKey] = {}
    for event in session.events:
        name, arguments = event.get("name", ""), event.get("args") or {}
        if event.get("ph") != "X":
            continue
        begin = session.start + 1000 * int(event["ts"])
        end, thread = begin + 1000 * int(event["dur"]), int(event["tid"])
        if event.get("cat") == "Session" and name == "model_run":
            yield Span(begin, end, thread, SESSION_RUN, session.graph)
        elif event.get("cat") == "Node" and name.endswith(_KERNEL_SUFFIX):
            op_type, provider = arguments.get("op_name", ""), arguments.get("provider", "")
            stem = name.removesuffix(_KERNEL_SUFFIX)
            key = keys.get((stem, op_type, provider))
            if key is None:
                kernel, origin = find_origin(stem, op_type)
                key = KernelKey(session.graph, stem, kernel, provider, origin)
                keys[stem, op_type, provider] = key
            yield Span(begin, end, thread, KERNEL, session.graph, key)


def _operator_spans(recording: Recording) -> Iterator[Span]:
    """Yield the spans of operators that torch ran, by graph.

    Operators inside the call of a partition, such as copies of inputs, are left out: their time
    belongs to the call.
    """
    operators = _exclude_windows(recording.operators, [window for _, window in recording.parts])
    operators.sort(key=_begin_time)
    for graph, window in recording.torch:
        start, stop = (bisect_left(operators, time, key=_begin_time) for time in window)
        yield from _match_calls(graph, operators[start:stop], recording.graphs[graph].torch)
    if recording.backward_graph is not None:
        unassigned = _exclude_windows(operators, [window for _, window in recording.torch])
        yield from _match_calls(recording.backward_graph, unassigned, ())


def _begin_time(operator: tuple[str, int, int]) -> int:
    return operator[1]


def _exclude_windows(
    operators: Iterable[tuple[str, int, int]], windows: Iterable[Window]
) -> list[tuple[str, int, int]]:
    """Return the operators that begin in none of the windows, which must not overlap."""
    sorted_windows = sorted(windows)
    begins = [begin for begin, _ in sorted_windows]

    def is_inside(time: int) -> bool:
        index = bisect_right(begins, time)
        return index > 0 and time < sorted_windows[index - 1][1]

    return [operator for operator in operators if not is_inside(operator[1])]


def _match_calls(
    graph: int, operators: Sequence[tuple[str, int, int]], calls: Sequence[TorchCall]
) -> Iterator[Span]:
    """Yield the spans of operators; runs of an operator are matched in order with its calls.

    A match adds module and line. An operator that ran more or less often than the graph calls it is
    not matched.
    """
    calls_by_operator: dict[str, list[TorchCall]] = defaultdict(list)
    for call in calls:
        calls_by_operator[call.operator].append(call)
    run_counts = Counter(name for name, _, _ in operators)
    seen_counts: Counter[str] = Counter()
    for name, begin, end in operators:
        origin, index = KernelOrigin(operator=name), seen_counts[name]
        if len(calls_by_operator[name]) == run_counts[name]:
            origin = KernelOrigin(
                calls_by_operator[name][index].module, name, calls_by_operator[name][index].line
            )
        seen_counts[name] += 1
        yield Span(
            begin, end, 0, OPERATOR, graph, KernelKey(graph, name, name, TORCH_PROVIDER, origin)
        )


@dataclass(frozen=True)
class TimeAttribution:
    """Mean nanoseconds per call.

    `nodes` has the time and the number of runs of each node; `sessions` (outside of kernels) and
    `torch` (outside of operators) have times by graph index. `calls` is the number of calls in the
    means, `call` and `plain` are the times of a call with and without the profiler. `timeline` has
    the spans of the call of median time, `window` the begin and end of that call.
    """

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


def attribute_time(recording: Recording) -> TimeAttribution:
    """Attribute the time of the middle half of the calls.

    Raises:
        ProviderError: all runs that ONNX Runtime recorded are outside of the calls.
    """
    spans = collect_spans(recording)
    spans.sort(key=lambda span: span.begin)
    begins = [span.begin for span in spans]
    spans_by_call = [
        spans[bisect_left(begins, begin) : bisect_left(begins, end)]
        for begin, end in recording.calls
    ]
    _check_clock(spans, spans_by_call)
    lengths = [end - begin for begin, end in recording.calls]
    middle_calls = _middle_half(lengths)
    nodes: dict[KernelKey, list[float]] = defaultdict(lambda: [0.0, 0.0])
    other_times: dict[tuple[int, int], float] = defaultdict(float)  # by rank and graph
    python, count = 0.0, len(middle_calls)
    for call_index in middle_calls:
        call_spans = spans_by_call[call_index]
        times, idle = attribute_window(call_spans, recording.calls[call_index])
        python += idle / count
        for span, time in zip(call_spans, times, strict=True):
            if span.key is not None:
                nodes[span.key][0] += time / count
                nodes[span.key][1] += 1
            else:
                other_times[span.rank, span.graph] += time / count
    return TimeAttribution(
        nodes={key: (time, runs / count) for key, (time, runs) in nodes.items()},
        sessions={
            graph: time for (rank, graph), time in other_times.items() if rank == SESSION_RUN
        },
        torch={graph: time for (rank, graph), time in other_times.items() if rank == TORCH},
        backward=other_times[BACKWARD, -1],
        python=python
        + sum(time for (rank, _), time in other_times.items() if rank == PARTITION_CALL),
        calls=count,
        call=statistics.fmean(lengths[call_index] for call_index in middle_calls),
        plain=statistics.fmean(recording.plain[n] for n in _middle_half(recording.plain)),
        window=recording.calls[middle_calls[count // 2]],
        timeline=tuple(spans_by_call[middle_calls[count // 2]]),
    )


def _middle_half(lengths: Sequence[int]) -> list[int]:
    """Return the indices of the calls, from short to long, without the outer quarters.

    Other processes may have disturbed the longest calls.
    """
    indices = sorted(range(len(lengths)), key=lengths.__getitem__)
    quarter = len(indices) // 4
    return indices[quarter : len(indices) - quarter]


def _check_clock(spans: Sequence[Span], spans_by_call: Iterable[Sequence[Span]]) -> None:
    """Check that the profiler uses the system's clock: some session run must begin in a call."""
    runs = [span for span in spans if span.rank == SESSION_RUN]
    if runs and not any(
        span.rank == SESSION_RUN for call_spans in spans_by_call for span in call_spans
    ):
        raise ProviderError(
            "ONNX Runtime recorded runs of sessions, but none within a call: its profiler uses "
            "another clock than this system, or the clock was set while the calls ran. Try again."
        )


def attribute_window(spans: Sequence[Span], window: Window) -> tuple[list[float], float]:
    """Compute the time in the window that belongs to each span, and the time that belongs to none.

    All these times add up to the length of the window. Spans may be in any order, and are clipped
    to the window.
    """
    times = [0.0] * len(spans)
    idle = 0.0
    # (time, whether a span begins, -end, span index): ends sort before begins, and long spans first
    points: list[tuple[int, int, int, int]] = []
    for span_index, span in enumerate(spans):
        begin, end = max(span.begin, window[0]), min(span.end, window[1])
        if begin < end:
            points += [(begin, 1, -end, span_index), (end, 0, 0, span_index)]
    stacks: dict[tuple[int, int], list[int]] = defaultdict(list)  # open spans by rank and thread
    last_time = window[0]
    for time, is_begin, _, span_index in [*sorted(points), (window[1], 0, 0, -1)]:
        if time > last_time:
            owners = _find_owners(stacks)
            for owner in owners:
                times[owner] += (time - last_time) / len(owners)
            if not owners:
                idle += time - last_time
            last_time = time
        if span_index >= 0:
            stack = stacks[spans[span_index].rank, spans[span_index].thread]
            stack.append(span_index) if is_begin else stack.remove(span_index)
    return times, idle


def _find_owners(stacks: dict[tuple[int, int], list[int]]) -> list[int]:
    """Find the open spans of the highest rank with any: on each thread, the innermost one."""
    for rank in (KERNEL, SESSION_RUN, PARTITION_CALL, OPERATOR, TORCH, BACKWARD):
        owners = [
            stack[-1] for (span_rank, _), stack in stacks.items() if span_rank == rank and stack
        ]
        if owners:
            return owners
    return []
