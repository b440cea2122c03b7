"""What `ExportOptions.decomposition_table` means, to `to_onnx` and to the backend alike.

In comes the option, out goes a table from overloads to functions. Called by `ExportOptions`; what
either side does where no table is chosen, it says itself: `capture/functionalize.py` and
`backend/aot/decompositions.py` leave whole what has a converter."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch

from ortable.compat.torch import OperatorBase, decomposition_table
from ortable.errors import OptionError
from ortable_generated.aten import traits

NAMES = (None, "none", "default", "all")
Table = dict[Any, Callable[..., Any]]


def check(chosen: Any) -> None:
    """Raises OptionError unless ``chosen`` is one of `NAMES` or maps overloads to functions."""
    if not isinstance(chosen, Mapping):
        if chosen not in NAMES:
            raise OptionError(
                f"ExportOptions.decomposition_table is one of {NAMES} or a dict from "
                "overload to function, "
                f"not {chosen!r}"
            )
        return
    for overload, function in chosen.items():
        if not isinstance(overload, OperatorBase) or not callable(function):
            raise OptionError(
                "ExportOptions.decomposition_table as a dict maps overloads to functions, for "
                "example {torch.ops.aten.relu.default: f}, not "
                f"{overload!r} to {function!r}"
            )


def resolved(chosen: str | Mapping[Any, Callable[..., Any]] | None) -> Table | None:
    """The table that the option stands for, a new dict.

    None and ``"none"``: None, every operator that has a converter stays whole. ``"default"``:
    torch.export's own table, and nothing else. ``"all"``: that, over every decomposition that torch
    registers but those that are wrong (the trait `kept_whole`). A dict: itself."""
    if chosen is None or chosen == "none":
        return None
    if isinstance(chosen, Mapping):
        return dict(chosen)
    table = torch.export.default_decompositions()
    if chosen == "default":
        return table
    every = {**decomposition_table, **dict(table.items())}
    return {op: body for op, body in every.items() if op.name() not in traits.KEPT_WHOLE}
