"""The trace of a Profile in the format of Chrome, for chrome://tracing and Perfetto. In comes a
Profile, out goes a dict; called by `Profile.trace`.

On each thread events lie within one another: the call, a session, the modules, the kernel. A module
lasts from its first kernel to its last one, as long as no kernel of another stands between."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from .report import Profile, Step, shared_parts

_CATEGORIES = (
    "call", "backward", "torch", "partition", "session", "module", "operator", "kernel"
)  # fmt: skip


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
        return step.begin_us, -step.us, _CATEGORIES.index(step.what)

    for step in sorted(steps, key=order):
        while around[-1].end <= step.begin_us:
            yield from close(0)
            last = around.pop().end
        name, about = _said(profile, step)
        path = about["module"].split(".") if about.get("module") else []
        outer = around[-1]
        inside = path[: len(outer.path)] == outer.path
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
