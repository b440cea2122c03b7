"""Warnings of option `hints`, each once in a process: of operators that torch runs because ortable
cannot convert them, and of a module in eval mode that is compiled with gradients on."""

from __future__ import annotations

import sys
import textwrap
import warnings
from collections.abc import Sequence
from types import FrameType
from typing import Any

import torch
from torch.fx import GraphModule

from ortable.backend.options import OrtOptions
from ortable.backend.roles import Placement
from ortable.compat.bisector import searches
from ortable.errors import FallbackWarning, GradientsOnWarning

_TEXT = (
    "ortable cannot convert {operator}{at}: {why}. torch runs it, between the parts that ONNX "
    "Runtime runs. options={{'fallback': 'error'}} makes this an error, options={{'hints': False}} "
    "or warnings.simplefilter('ignore', ortable.errors.FallbackWarning) silences it."
)
_DRAFT = (
    "\nortable.load_specs(path) compiles an entry (docs/adding-an-operator.md) that starts from:\n"
)
_named: set[str] = set()  # operators, in this process
_HINT = (
    "ortable compiles a {name} in eval mode with gradients on, which keeps what a backward would "
    "need and its weights as inputs, until some calls show that no backward comes, and then "
    "compiles again. If you want no gradients, call it under torch.no_grad() or "
    "torch.inference_mode(): it is fast at once. If you do, options={{'hints': False}} or "
    "warnings.simplefilter('ignore', ortable.errors.GradientsOnWarning) silences this."
)
_said = False  # in this process


def warn_of_fallback(placement: Sequence[Placement], options: OrtOptions) -> None:
    """Warn of each operator that fell back to torch, with an entry to start from if it has none; a
    search for a fault, which switches conversions off, goes on without."""
    if not options.hints or searches("lowerings"):
        return
    for call in placement:
        name = call.operator
        if call.by != "fallback" or name in _named:
            continue
        text = _TEXT.format(operator=name, at=f" ({call.line})" if call.line else "", why=call.why)
        if call.draft:
            text += _DRAFT + textwrap.indent(call.draft, "    ")
        warnings.warn(text, FallbackWarning, stacklevel=2)
        _named.add(name)


def hint_at_gradients(kind: str, options: OrtOptions) -> None:
    """Warn of a graph of the kind ``"forward"`` (a backward may follow) of an eval module."""
    global _said
    if kind != "forward" or _said or not options.hints:
        return
    found = _called_modules(sys._getframe(1))
    if found is None:
        return
    modules, caller = found
    if any(each.training for module in modules for each in module.modules()):
        return
    _said = True
    warnings.warn_explicit(
        _HINT.format(name=type(modules[0]).__name__),
        GradientsOnWarning,
        caller.f_code.co_filename,
        caller.f_lineno,
        module=caller.f_globals.get("__name__", "<unknown>"),
    )


def _called_modules(
    frame: FrameType | None,
) -> tuple[list[torch.nn.Module], FrameType] | None:
    """The modules whose calls are on the stack, the compiled one first, and who called that one;
    None for a function that no module calls."""
    modules: list[torch.nn.Module] = []
    caller = None
    while frame is not None:
        this: Any = frame.f_locals.get("self")
        if isinstance(this, torch.nn.Module) and type(this) is not GraphModule:
            modules.append(getattr(this, "_orig_mod", this))
        elif modules and caller is None:
            name = frame.f_globals.get("__name__", "")
            caller = None if name.partition(".")[0] == "torch" else frame
        frame = frame.f_back
    return None if caller is None else (modules, caller)
