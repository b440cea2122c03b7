"""Warnings of option `hints`.

They report operators that torch runs because ortable cannot convert them (once per operator), and
an eval-mode module that is compiled with gradients enabled (once per process).
"""

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
from ortable.compat.bisector import is_searching
from ortable.errors import FallbackWarning, GradientsOnWarning

_FALLBACK_TEXT = (
    "ortable cannot convert {operator}{at}: {why}. torch runs it, between the parts that ONNX "
    "Runtime runs. options={{'fallback': 'error'}} makes this an error, options={{'hints': False}} "
    "or warnings.simplefilter('ignore', ortable.errors.FallbackWarning) silences it."
)
_DRAFT_TEXT = (
    "\nTo convert it, load an entry with ortable.load_specs(path) (docs/adding-an-operator.md). "
    "The entry starts from:\n"
)
_warned_operators: set[str] = set()  # operators with a warning in this process
_GRAD_TEXT = (
    "ortable compiles a {name} in eval mode with gradients on. It saves values for a backward and "
    "keeps its weights as inputs until some calls show that no backward runs, and then compiles "
    "the module again. If you need no gradients, call it under torch.no_grad() or "
    "torch.inference_mode(), which is fast from the first call. Otherwise "
    "options={{'hints': False}} or "
    "warnings.simplefilter('ignore', ortable.errors.GradientsOnWarning) silences this."
)
_grad_warned = False  # whether this process has warned


def warn_of_fallback(placement: Sequence[Placement], options: OrtOptions) -> None:
    """Warn of each operator that fell back to torch; add a draft of an entry if it has none.

    A bisection, which disables conversions, does not warn.
    """
    if not options.hints or is_searching("lowerings"):
        return
    for call in placement:
        name = call.operator
        if call.by != "fallback" or name in _warned_operators:
            continue
        text = _FALLBACK_TEXT.format(
            operator=name, at=f" ({call.line})" if call.line else "", why=call.why
        )
        if call.draft:
            text += _DRAFT_TEXT + textwrap.indent(call.draft, "    ")
        warnings.warn(text, FallbackWarning, stacklevel=2)
        _warned_operators.add(name)


def warn_grad_enabled(kind: str, options: OrtOptions) -> None:
    """Warn once when an eval-mode module is compiled with gradients enabled.

    AOTAutograd then makes a graph of kind "forward"; without gradients, its kind is "inference".
    """
    global _grad_warned
    if kind != "forward" or _grad_warned or not options.hints:
        return
    called = _called_modules(sys._getframe(1))
    if called is None:
        return
    modules, caller = called
    if any(submodule.training for module in modules for submodule in module.modules()):
        return
    _grad_warned = True
    warnings.warn_explicit(
        _GRAD_TEXT.format(name=type(modules[0]).__name__),
        GradientsOnWarning,
        caller.f_code.co_filename,
        caller.f_lineno,
        module=caller.f_globals.get("__name__", "<unknown>"),
    )


def _called_modules(
    frame: FrameType | None,
) -> tuple[list[torch.nn.Module], FrameType] | None:
    """Return the modules whose calls are on the stack, innermost first, and the frame that calls.

    The calling frame is outside of torch. The result is None if no module is on the stack.
    """
    modules: list[torch.nn.Module] = []
    caller = None
    while frame is not None:
        receiver: Any = frame.f_locals.get("self")
        if isinstance(receiver, torch.nn.Module) and type(receiver) is not GraphModule:
            modules.append(getattr(receiver, "_orig_mod", receiver))
        elif modules and caller is None:
            name = frame.f_globals.get("__name__", "")
            caller = None if name.partition(".")[0] == "torch" else frame
        frame = frame.f_back
    return None if caller is None else (modules, caller)
