"""The modes of `torch.compile` as options of ortable: configuration files name them, and they mean
settings of inductor. Called by `entry`, which merges them with the options of the call."""

from __future__ import annotations

import logging
from typing import Any

from ortable.errors import OptionError

__all__ = ["options_of_mode"]

_log = logging.getLogger(__name__)
_TUNES = "means options={'autotune': True} here: each graph runs where it is faster, with ONNX "
_TUNES += "Runtime or with torch"
# By mode: the options, and what the mode means here.
_MODES: dict[str, tuple[dict[str, Any], str]] = {
    "default": ({}, ""),
    "reduce-overhead": (
        {},
        "changes nothing here: a call runs no Python between the kernels of a graph, and CUDA "
        "graphs are inductor's",
    ),
    "max-autotune": ({"autotune": True}, _TUNES),
    "max-autotune-no-cudagraphs": ({"autotune": True}, _TUNES),
}
_logged: set[str] = set()  # modes, in this process


def options_of_mode(mode: str | None) -> dict[str, Any]:
    """Get the options that come nearest to a mode of `torch.compile`, and log once what it means.

    Raises:
        OptionError: no mode has this name.
    """
    if mode is None:
        return {}
    if mode not in _MODES:
        raise OptionError(
            f"ortable knows no mode {mode!r}. Those of torch.compile that it takes: "
            f"{', '.join(_MODES)}. Give what else you want to change in options={{...}}."
        )
    options, meaning = _MODES[mode]
    if meaning and mode not in _logged:
        _logged.add(mode)
        _log.warning("mode %r of torch.compile %s", mode, meaning)
    return dict(options)
