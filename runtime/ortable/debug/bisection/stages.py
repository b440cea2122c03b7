"""What a search switches off, in order: a stage is a part of a compilation, and how a run goes
without it; `Switches` answer the parts of a compilation that ask whether they are off; and what to
do about a fault today: a sentence, and the options with which the model should agree. Called by
`search`, which tries them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ortable.compat.bisector import Application

from .records import Fault

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


_REPORT = "Please report it with this text."
_OPTIMIZERS = "optimization.disable_specified_optimizers"


def advised(
    fault: Fault, options: Mapping[str, Any], export: bool = False
) -> tuple[str, dict[str, Any] | None]:
    """What to do, and the options that do it; None where no option does."""
    kind, name = fault.kind, fault.name
    if kind == "rule":
        asked = options.get("rewrites") or ["default"]
        names = [*([asked] if isinstance(asked, str) else asked), f"-{name}"]
        said = f"rewrites={names} leaves the rule out. {_mending(fault)}"
        return said, {**options, "rewrites": names}
    if kind == "pass":
        changed = but(options, "rewrites") | {"optimize": False}
        return f"optimize=False leaves it out. {_REPORT}", changed
    if kind == "optimizer":
        return _in_own_session(name) if export else _without_optimizer(name, options)
    if kind in ("entry", "kernel"):
        return (_mending(fault), None) if export else _in_torch(fault, options)
    if kind in ("option", "transform"):
        return _without_option(name, kind, options)
    if kind == "constants":
        changed = but(options, "weights") | {"freeze": "off"}
        return f'freeze="off" leaves weights where torch keeps them. {_REPORT}', changed
    if kind == "cache":
        where = f"Delete {fault.file}" if fault.file else "Start the process anew"
        changed = but(options, "cache_dir")
        return f"{where}: it is converted again. {_REPORT}", changed if fault.file else None
    if kind == "decomposition":
        return (
            f"export_options=ortable.ExportOptions(decomposition_table=...) takes a table without "
            f"{name}. {_REPORT}",
            None,
        )
    if kind == "torch":
        return 'Report it to PyTorch: torch.compile(model, backend="aot_eager") shows it.', None
    return _REPORT, None


def _mending(fault: Fault) -> str:
    """Who mends it: the user, what stands in a file of theirs."""
    if fault.kind == "kernel" or not Path(fault.file).is_absolute():
        return _REPORT
    check = "rewrites check" if fault.kind == "rule" else "specs test"
    return f"Mend it at {fault.place}, and then `ortable {check} {fault.file}`."


def _in_own_session(name: str) -> tuple[str, None]:
    """An exported model is run by sessions that the user makes."""
    said = f'add_session_config_entry("{_OPTIMIZERS}", "{name}")'
    return f"SessionOptions.{said} runs the model without it. {_REPORT}", None


def _without_optimizer(name: str, options: Mapping[str, Any]) -> tuple[str, dict[str, Any] | None]:
    given = options.get("session_options") or {}
    if not isinstance(given, Mapping):
        return f"Switch it off in your SessionOptions. {_REPORT}", None
    if name == "graph_optimization_level":
        import onnxruntime

        level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        settings = {**given, name: level}
        said = '{"graph_optimization_level": onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL}'
    else:
        names = ";".join(filter(None, [str(given.get(_OPTIMIZERS, "")), name]))
        settings = {**given, _OPTIMIZERS: names}
        said = f'{{"{_OPTIMIZERS}": "{names}"}}'
    return (
        f"session_options={said} runs without it. {_REPORT}",
        {**options, "session_options": settings},
    )


def _in_torch(fault: Fault, options: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    names = [*(options.get("raise_on") or ()), fault.name]
    changed = {**options, "fallback": "eager", "raise_on": names}
    return f'fallback="eager", raise_on={names} runs it in torch. {_mending(fault)}', changed


def _without_option(
    name: str, kind: str, options: Mapping[str, Any]
) -> tuple[str, dict[str, Any] | None]:
    if kind == "transform":
        return "Mend the function, or leave it out.", None
    option, _, setting = name.partition("[")
    option = option.partition("=")[0]
    if setting:
        setting = setting.rstrip("]").strip("'\"")
        kept = but(options[option], setting)
        changed = {**options, option: kept}
    elif option == "freeze":
        said = 'Leave freeze at "auto", or call ortable.refresh(model) after you write a weight.'
        return said, {**options, "freeze": "auto"}
    else:
        changed = but(options, option)
    return f"Leave {name} out, or allow for what it changes (--atol, --rtol).", changed
