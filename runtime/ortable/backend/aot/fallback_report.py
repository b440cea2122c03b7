"""Warn of operators that torch runs because ortable cannot convert them, once in a process each.
Called by `build` for each graph that is compiled; see `partition.fallback` for what is left to
torch."""

from __future__ import annotations

import textwrap
import warnings
from collections.abc import Sequence

from ortable.backend.options import OrtOptions
from ortable.backend.partition.placement import Placement
from ortable.compat.bisector import searches
from ortable.errors import FallbackWarning

__all__ = ["warn_of_fallback"]

_TEXT = (
    "ortable cannot convert {operator}{at}: {why}. torch runs it, between the parts that ONNX "
    "Runtime runs. options={{'fallback': 'error'}} makes this an error, options={{'hints': False}} "
    "or warnings.simplefilter('ignore', ortable.errors.FallbackWarning) silences it."
)
_DRAFT = (
    "\nortable.load_specs(path) compiles an entry (docs/adding-an-operator.md) that starts from:\n"
)
_named: set[str] = set()  # operators, in this process


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
