"""The trace of a Profile in the format of Chrome, for chrome://tracing and Perfetto. In comes a
Profile, out goes a dict; called by `Profile.trace`.

On each thread events lie within one another: the call, a session, the modules, the kernel. A module
lasts from its first kernel to its last one, as long as no kernel of another stands between."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from .times import Step, Times


def trace_of(profile: Times) -> dict[str, Any]:
    """The trace, times in microseconds."""
    threads = _main_first(profile.timeline)
    length = profile.timeline_us
    call = _event(profile.model, "call", 0.0, length, 0, {"calls": profile.calls})
    names = [("process_name", 0, f"ortable: {profile.model}")]
    names += [("thread_name", place, f"thread {place}") for place in threads.values()]
    events = [
        {"ph": "M", "name": name, "pid": 1, "tid": tid, "args": {"name": text}}
        for name, tid, text in dict.fromkeys(names)
    ]
    events.append(call)
    for thread, place in threads.items():
        steps = [step for step in profile.timeline if step.thread == thread]
        for nest in _nested(steps):
            events += _events(profile, nest, place)
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


_CATEGORIES = (
    "call", "backward", "torch", "partition", "session", "module", "operator", "kernel"
)  # fmt: skip


@dataclass
class _Nest:
    """A step, and the steps inside it."""

    step: Step
    inside: list[_Nest] = field(default_factory=list)


def _nested(steps: Sequence[Step]) -> list[_Nest]:
    """The steps of a thread, each inside the one that lasts around it."""
    roots: list[_Nest] = []
    open_: list[_Nest] = []
    for step in sorted(steps, key=lambda step: (step.begin_us, -step.us, _RANK[step.what])):
        while open_ and open_[-1].step.begin_us + open_[-1].step.us <= step.begin_us:
            open_.pop()
        nest = _Nest(step)
        (open_[-1].inside if open_ else roots).append(nest)
        open_.append(nest)
    return roots


_RANK = {"backward": 0, "torch": 1, "operator": 2, "partition": 3, "session": 4, "kernel": 5}


def _events(profile: Times, nest: _Nest, thread: int) -> Iterator[dict[str, Any]]:
    """The events of a step and of what is inside it."""
    step = nest.step
    if step.node >= 0:
        node = profile.nodes[step.node]
        about = {
            "node": node.name,
            "kernel": node.kernel,
            "provider": node.provider,
            "module": node.module,
            "operator": node.operator,
            "line": node.line,
        }
        name = f"{node.kernel}: {node.operator}" if step.what == "kernel" else node.operator
        yield _event(name, step.what, *_time(step), thread, about)
        around = node.module.split(".") if node.module else []
    else:
        name = "backward" if step.graph < 0 else profile.graphs[step.graph].label
        yield _event(name, step.what, *_time(step), thread, {})
        around = []
    yield from _modules(profile, nest.inside, thread, around)


def _modules(
    profile: Times, nests: Sequence[_Nest], thread: int, around: Sequence[str]
) -> Iterator[dict[str, Any]]:
    """The events of steps that follow one another, with those of the modules around them."""
    open_: list[tuple[str, float]] = []  # of modules, innermost last, with their begin
    last = 0.0

    def closed(depth: int) -> Iterator[dict[str, Any]]:
        while len(open_) > depth:
            path = [*around, *(name for name, _ in open_)]
            name, begin = open_.pop()
            yield _event(name, "module", begin, last - begin, thread, {"module": ".".join(path)})

    for nest in nests:
        step = nest.step
        module = profile.nodes[step.node].module if step.node >= 0 else ""
        parts = module.split(".") if module else []
        parts = parts[len(around) :] if parts[: len(around)] == list(around) else []
        shared = 0
        while shared < min(len(open_), len(parts)) and open_[shared][0] == parts[shared]:
            shared += 1
        yield from closed(shared)
        open_ += [(name, step.begin_us) for name in parts[shared:]]
        yield from _events(profile, nest, thread)
        last = step.begin_us + step.us
    yield from closed(0)


def _time(step: Step) -> tuple[float, float]:
    return step.begin_us, step.us


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
