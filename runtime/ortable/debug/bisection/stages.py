"""What a search switches off, in order: a stage is a part of a compilation, and how a run goes
without it; `Switches` answer the parts of a compilation that ask whether they are off. In come the
options of the user, out come options and the names of subsystems; called by `search`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ortable.compat.bisector import Application

# Options that change what is computed by themselves. The others choose among ways that compute the
# same: where one of those heals, the fault is in the way, and a later stage finds it.
_NUMERIC = (
    "pre_ort_model_transforms", "weights", "tune", "autotune", "session_options", "run_options",
    "providers",
)  # fmt: skip


@dataclass(frozen=True)
class State:
    """How a run goes: with which options, without which subsystems (`compat.bisector`)."""

    options: Mapping[str, Any] = field(default_factory=dict)
    off: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Stage:
    """A part that is switched off: `change` makes the state without it, or None where there is
    nothing to switch off; `subsystem` is one whose applications can be searched, `option` the name
    of an option."""

    kind: str
    change: Callable[[State], State | None]
    subsystem: str = ""
    option: str = ""
    exports: bool = True

    @property
    def name(self) -> str:
        """What is switched off."""
        return self.option or self.subsystem or self.kind


def but(options: Mapping[str, Any], name: str) -> dict[str, Any]:
    """A dict without one of its entries."""
    return {key: value for key, value in options.items() if key != name}


def without(state: State, name: str) -> State | None:
    """Without an option; None where it is not given."""
    if state.options.get(name) in (None, (), [], {}):
        return None
    return replace(state, options=but(state.options, name))


def without_setting(state: State, option: str, setting: str) -> State:
    """Without one entry of a dict that is an option."""
    kept = but(state.options[option], setting)
    return replace(state, options={**state.options, option: kept})


def _untrusted(state: State) -> State | None:
    if state.options.get("freeze") != "trust":
        return None
    return replace(state, options={**state.options, "freeze": "auto"})


def _unoptimized(state: State) -> State | None:
    """A session that changes nothing."""
    import onnxruntime

    given = state.options.get("session_options") or {}
    if not isinstance(given, Mapping):
        return None
    settings = {
        **given,
        "graph_optimization_level": onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL,
    }
    return replace(state, options={**state.options, "session_options": settings})


def _option(name: str, change: Callable[[State], State | None] | None = None) -> Stage:
    def remove(state: State) -> State | None:
        return without(state, name)

    kind = "transform" if name == "pre_ort_model_transforms" else "option"
    return Stage(kind, change or remove, option=name, exports=name == "weights")


def _subsystem(kind: str, name: str, exports: bool = True) -> Stage:
    return Stage(kind, lambda state: replace(state, off=state.off | {name}), name, exports=exports)


OPTIONS: tuple[Stage, ...] = (
    *(_option(name) for name in _NUMERIC),
    _option("freeze", _untrusted),
)
GRAPHS: tuple[Stage, ...] = (
    Stage("cache", lambda state: state),  # a search asks no cache
    _subsystem("optimizer", "optimizers"),
    Stage("optimizer", _unoptimized, exports=False),
    _subsystem("rule", "rewrites"),
    _subsystem("pass", "passes"),
    _subsystem("constants", "constants", exports=False),
)
OPERATORS: tuple[Stage, ...] = (
    _subsystem("entry", "lowerings", exports=False),
    _subsystem("decomposition", "decompositions", exports=False),
)


class Switches:
    """The judge of one run: whole subsystems that are off, and one whose first applications alone
    are on.

    :param off: subsystems without any application
    :param searching: the subsystem whose applications are counted
    :param limit: how many of them are on; None: all
    """

    def __init__(
        self, off: Collection[str] = (), searching: str = "", limit: int | None = None
    ) -> None:
        self.off = frozenset(off)
        self.searching = searching
        self.limit = limit
        self.counts: Counter[str] = Counter()  # of the applications that asked
        self.last: Application | None = None  # the last one that is on

    def searches(self, subsystem: str) -> bool:
        """Whether applications of a subsystem have to stay where they are."""
        return subsystem == self.searching or subsystem in self.off

    def disabled(self, subsystem: str, about: Callable[[], Application]) -> bool:
        """Whether the next application of a subsystem is off."""
        self.counts[subsystem] += 1
        if subsystem in self.off:
            return True
        if subsystem != self.searching:
            return False
        count = self.counts[subsystem]
        if count == self.limit:
            self.last = about()
        return self.limit is not None and count > self.limit
