"""What to do about a fault today. In comes a fault and the options of the user, out come a sentence
and the options with which the model should agree; called by `search`, which tries them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .records import Fault
from .stages import but

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
        return f"optimize=False leaves it out. {_REPORT}", _unoptimized(options)
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


def _unoptimized(options: Mapping[str, Any]) -> dict[str, Any]:
    return but(options, "rewrites") | {"optimize": False}


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
