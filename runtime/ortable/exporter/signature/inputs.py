"""Names of inputs and outputs. Everything is counted before anything is converted, so a wrong
length is an error that says what was expected. In come the caller's arguments, out go checked
ones and names. Called by to_onnx.py and outputs.py."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from ortable.errors import ExportError, InputError

from . import pytrees


def checked_call(args: Any, kwargs: Any, mod: Any = None) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Positional and keyword arguments of the call to export; one tensor is taken as a tuple of
    one. ``mod`` is the model, whose results may need classes that torch does not know.

    Raises InputError for anything else.
    """
    if isinstance(args, torch.Tensor):
        args = (args,)
    if args is None:
        args = ()
    if not isinstance(args, (tuple, list)):
        hint = "; give kwargs= what forward takes by name" if isinstance(args, Mapping) else ""
        raise InputError(
            "args is a tuple of the positional arguments of the model, not "
            f"{type(args).__name__}{hint}"
        )
    if kwargs is not None and not isinstance(kwargs, Mapping):
        raise InputError(
            f"kwargs is a dict of the keyword arguments of the model, not {type(kwargs).__name__}"
        )
    pytrees.register_caches((args, kwargs), mod)
    return tuple(args), dict(kwargs or {})


def name_inputs(fx_names: Sequence[str], chosen: Sequence[str] | None) -> dict[str, str]:
    """FX placeholder name -> ONNX input name, for the inputs that the model keeps.

    Raises ExportError when ``chosen`` has another length, or a name twice.
    """
    if chosen is None:
        return {}
    names = _checked_names(chosen, "input_names")
    if len(names) != len(fx_names):
        raise ExportError(
            f"input_names has {len(names)} names {names}, but the model has {len(fx_names)} "
            f"inputs: {list(fx_names)} "
            "(numbers and None given in args are constants of the model, not inputs)"
        )
    return dict(zip(fx_names, names, strict=True))


def name_outputs(described: Sequence[str | None], chosen: Sequence[str] | None) -> list[str]:
    """A name for each output; ``described`` has None for those that have no ONNX output (None in
    torch).

    Outputs keep the number they have in torch: the second of ``(None, y)`` is ``output_1``.
    Raises ExportError when ``chosen`` has another length than there are outputs, or a name twice.
    """
    defaults = [f"output_{index}" for index in range(len(described))]
    if chosen is None:
        return defaults
    names = _checked_names(chosen, "output_names")
    kept = [index for index, entry in enumerate(described) if entry is not None]
    if len(names) != len(kept):
        raise ExportError(
            f"output_names has {len(names)} names {names}, but the model has {len(kept)} outputs: "
            f"{[described[index] for index in kept]}"
        )
    for index, name in zip(kept, names, strict=True):
        defaults[index] = name
    return defaults


def _checked_names(names: Any, what: str) -> list[str]:
    found = list(names)
    twice = sorted({name for name in found if found.count(name) > 1})
    if twice:
        raise ExportError(f"{what} has {', '.join(map(repr, twice))} more than once")
    return found
