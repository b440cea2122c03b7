"""The stages of a search, the switches that disable parts, and advice for each kind of fault.

A `Stage` removes a part of a compilation. `Switches` implements the `BisectionFilter` of
`compat.bisector`, which counts the applications of a part: a fired rule, or a converted node.
`search.py` runs the model with the options of the advice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ortable.compat.bisector import Application

from .records import Fault

# Options that change results. All other options choose among equivalent implementations: if one of
# them removes the difference, the fault is in an implementation, which a later stage finds.
_NUMERIC_OPTIONS = (
    "pre_ort_model_transforms", "weights", "tune", "autotune", "torch_regions", "session_options",
    "run_options", "providers",
)  # fmt: skip


@dataclass(frozen=True)
class State:
    """The options and the disabled subsystems (see `compat.bisector`) of a run."""

    options: Mapping[str, Any] = field(default_factory=dict)
    off: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Stage:
    """A step of the search that disables a part.

    `change` returns the state without the part, or None if there is nothing to disable. `subsystem`
    is the name of a part whose applications can be searched, `option` that of a part that is an
    option. `applies_to_exports`: exported models have the part.
    """

    kind: str
    change: Callable[[State], State | None]
    subsystem: str = ""
    option: str = ""
    applies_to_exports: bool = True

    @property
    def name(self) -> str:
        """The name of the disabled part."""
        return self.option or self.subsystem or self.kind


def drop_key(options: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Copy a dict without one key."""
    return {key: value for key, value in options.items() if key != name}


def drop_option(state: State, name: str) -> State | None:
    """Remove an option; return None if it is not given."""
    if state.options.get(name) in (None, (), [], {}):
        return None
    return replace(state, options=drop_key(state.options, name))


def drop_setting(state: State, option: str, setting: str) -> State:
    """Remove one entry of a dict option."""
    settings = drop_key(state.options[option], setting)
    return replace(state, options={**state.options, option: settings})


def _disable_trust(state: State) -> State | None:
    if state.options.get("freeze") != "trust":
        return None
    return replace(state, options={**state.options, "freeze": "auto"})


def _disable_optimizers(state: State) -> State | None:
    """Disable the optimizers of the session."""
    import onnxruntime

    session_options = state.options.get("session_options") or {}
    if not isinstance(session_options, Mapping):
        return None
    settings = {
        **session_options,
        "graph_optimization_level": onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL,
    }
    return replace(state, options={**state.options, "session_options": settings})


def _option_stage(name: str, change: Callable[[State], State | None] | None = None) -> Stage:
    def change_option(state: State) -> State | None:
        return drop_option(state, name)

    kind = "transform" if name == "pre_ort_model_transforms" else "option"
    return Stage(kind, change or change_option, option=name, applies_to_exports=name == "weights")


def _subsystem_stage(kind: str, name: str, exports: bool = True) -> Stage:
    return Stage(
        kind, lambda state: replace(state, off=state.off | {name}), name, applies_to_exports=exports
    )


OPTIONS: tuple[Stage, ...] = (
    *(_option_stage(name) for name in _NUMERIC_OPTIONS),
    _option_stage("freeze", _disable_trust),
)
GRAPHS: tuple[Stage, ...] = (
    Stage("cache", lambda state: state),  # nothing to change: the runs of a search use no cache
    _subsystem_stage("optimizer", "optimizers"),
    Stage("optimizer", _disable_optimizers, applies_to_exports=False),
    _subsystem_stage("rule", "rewrites"),
    _subsystem_stage("pass", "passes"),
    _subsystem_stage("constants", "constants", exports=False),
)
OPERATORS: tuple[Stage, ...] = (
    _subsystem_stage("entry", "lowerings", exports=False),
    _subsystem_stage("decomposition", "decompositions", exports=False),
)


class Switches:
    """Disable subsystems in one run, and limit the searched subsystem to its first applications.

    Args:
        off: disabled subsystems.
        searching: the subsystem whose applications are counted.
        limit: the number of applications that are enabled; None for all.
    """

    def __init__(
        self, off: Collection[str] = (), searching: str = "", limit: int | None = None
    ) -> None:
        self.off = frozenset(off)
        self.searching = searching
        self.limit = limit
        self.counts: Counter[str] = Counter()  # of applications, by subsystem
        self.last: Application | None = None  # the last enabled application

    def is_searching(self, subsystem: str) -> bool:
        """Whether a subsystem is searched or disabled, so that its applications must keep order."""
        return subsystem == self.searching or subsystem in self.off

    def is_disabled(self, subsystem: str, about: Callable[[], Application]) -> bool:
        """Whether the next application of a subsystem is disabled."""
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
_OPTIMIZERS_KEY = "optimization.disable_specified_optimizers"


def make_advice(
    fault: Fault, options: Mapping[str, Any], export: bool = False
) -> tuple[str, dict[str, Any] | None]:
    """Return a workaround as text, and as options; None if no options work around the fault."""
    kind, name = fault.kind, fault.name
    if kind == "rule":
        requested = options.get("rewrites") or ["default"]
        names = [*([requested] if isinstance(requested, str) else requested), f"-{name}"]
        text = f"rewrites={names} disables the rule. {_fix_advice(fault)}"
        return text, {**options, "rewrites": names}
    if kind == "pass":
        changed = drop_key(options, "rewrites") | {"optimize": False}
        return f"optimize=False disables the pass. {_REPORT}", changed
    if kind == "optimizer":
        return _session_advice(name) if export else _optimizer_advice(name, options)
    if kind in ("entry", "kernel"):
        return (_fix_advice(fault), None) if export else _torch_advice(fault, options)
    if kind in ("option", "transform"):
        return _option_advice(name, kind, options)
    if kind == "constants":
        changed = drop_key(options, "weights") | {"freeze": "off"}
        return f'freeze="off" passes weights as inputs of the session. {_REPORT}', changed
    if kind == "cache":
        action = f"Delete {fault.file}" if fault.file else "Restart the process"
        changed = drop_key(options, "cache_dir")
        return (
            f"{action}; the model is converted again. {_REPORT}",
            changed if fault.file else None,
        )
    if kind == "decomposition":
        return (
            f"export_options=ortable.ExportOptions(decomposition_table=...) takes a table without "
            f"{name}. {_REPORT}",
            None,
        )
    if kind == "torch":
        return 'Report it to PyTorch: torch.compile(model, backend="aot_eager") shows it.', None
    return _REPORT, None


def _fix_advice(fault: Fault) -> str:
    """Advise to fix the user's file, or to report a fault that is in another file."""
    if fault.kind == "kernel" or not Path(fault.file).is_absolute():
        return _REPORT
    check = "rewrites check" if fault.kind == "rule" else "specs test"
    return f"Fix it at {fault.place}, and then run `ortable {check} {fault.file}`."


def _session_advice(name: str) -> tuple[str, None]:
    """Advise on an exported model, whose sessions the user makes."""
    call = f'add_session_config_entry("{_OPTIMIZERS_KEY}", "{name}")'
    return f"SessionOptions.{call} runs the model without it. {_REPORT}", None


def _optimizer_advice(name: str, options: Mapping[str, Any]) -> tuple[str, dict[str, Any] | None]:
    session_options = options.get("session_options") or {}
    if not isinstance(session_options, Mapping):
        return f"Disable the optimizer in your SessionOptions. {_REPORT}", None
    if name == "graph_optimization_level":
        import onnxruntime

        level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        settings = {**session_options, name: level}
        text = '{"graph_optimization_level": onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL}'
    else:
        names = ";".join(filter(None, [str(session_options.get(_OPTIMIZERS_KEY, "")), name]))
        settings = {**session_options, _OPTIMIZERS_KEY: names}
        text = f'{{"{_OPTIMIZERS_KEY}": "{names}"}}'
    return (
        f"session_options={text} runs without it. {_REPORT}",
        {**options, "session_options": settings},
    )


def _torch_advice(fault: Fault, options: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    names = [*(options.get("raise_on") or ()), fault.name]
    changed = {**options, "fallback": "eager", "raise_on": names}
    return f'fallback="eager", raise_on={names} runs it in torch. {_fix_advice(fault)}', changed


def _option_advice(
    name: str, kind: str, options: Mapping[str, Any]
) -> tuple[str, dict[str, Any] | None]:
    if kind == "transform":
        return "Fix the function, or leave it out.", None
    option, _, setting = name.partition("[")
    option = option.partition("=")[0]
    if setting:
        setting = setting.rstrip("]").strip("'\"")
        settings = drop_key(options[option], setting)
        changed = {**options, option: settings}
    elif option == "freeze":
        text = 'Leave freeze at "auto", or call ortable.refresh(model) after you write a weight.'
        return text, {**options, "freeze": "auto"}
    else:
        changed = drop_key(options, option)
    return f"Leave {name} out, or raise the tolerance (--atol, --rtol).", changed
