"""What each input and output of an FX graph became in the ONNX graph: typed records, so that nobody
reads roles out of names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

InputRole = Literal["tensor", "dimension", "constant", "none", "initializer", "unused"]
OutputRole = Literal["tensor", "dimension", "constant", "none", "input", "initializer", "duplicate"]


@dataclass(frozen=True)
class InputRecord:
    """Placeholder number ``index`` of the FX graph.

    ``name`` is the ONNX input (roles ``tensor`` and ``dimension``) or initializer, None when the
    graph has neither; ``value`` is the dimension of a ``dimension`` and the number of a
    ``constant``.
    """

    index: int
    fx_name: str
    role: InputRole
    name: str | None = None
    value: Any = None


@dataclass(frozen=True)
class OutputRecord:
    """Entry number ``index`` of the flattened FX output.

    ``name`` is the ONNX output that holds it, None when the ONNX graph has none; ``source`` is the
    result, input or initializer it comes from (for a ``duplicate``, the first result returned);
    ``value`` is the number of a ``constant`` or the dimension of a ``dimension``; ``fx_name`` is
    the FX node, None for a literal.
    """

    index: int
    role: OutputRole
    name: str | None = None
    source: str | None = None
    value: Any = None
    fx_name: str | None = None
