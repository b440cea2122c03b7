"""What torch.export says of arguments that it does not take, in the user's terms: the input and
the dimension, or the class that has to be registered. In comes an error of torch, out goes one
of ours. Called by dynamic_shapes.py."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from ortable.errors import ExportError

from . import pytrees

# torch derives many conditions from one; the first are those of the model's own lines.
MOST_REASONS = 2
_REMEDIES = (  # few lines, since a message has 15
    "What to do: for a Python loop over it ExportOptions(loops=True); for nn.GRU, nn.LSTM, nn.RNN",
    "  with ortable.bypass_export_some_errors(); for dimensions that must be equal one name;",
    "  if a Dim promises too much, give a name instead of a Dim: torch then finds the sizes;",
    "  or leave the dimension out of dynamic_shapes, or change the code that fixes it.",
)


def explained(
    error: Exception, arguments: Mapping[str, Any], leaves: Callable[[], Sequence[Any]]
) -> ExportError | None:
    """Our error for a dynamic dimension that cannot vary, or a class that nobody registered; None
    for any other error. ``leaves`` gives the leaves of the call with what was asked for them."""
    text = str(error)
    if "Unsupported input type" in text:
        found = [
            problem
            for key, value in arguments.items()
            for path, leaf in pytrees.leaves(key, value)
            if (problem := pytrees.unopened(path, leaf)) is not None
        ]
        return ExportError("\n".join(found)) if found else None
    returned = re.search(r"Found <class '([\w.<>]+)'> in output", text)
    if returned:
        kind = returned[1]
        return ExportError(
            f"the model returns a {kind}, whose fields torch.export does not know: register it "
            "once, before to_onnx, with torch.export.register_dataclass (a dataclass) or "
            "torch.utils._pytree.register_pytree_node, or return a tuple or dict"
        )
    if "Constraints violated" not in text and "marked" not in text and "specialized" not in text:
        return None
    return _about_dimensions(text, leaves())


def _about_dimensions(text: str, leaves: Sequence[Any]) -> ExportError:
    violated = {
        name.strip()
        for found in re.findall(r"Constraints violated \(([^)]*)\)", text)
        for name in found.split(",")
    }
    sources = {
        (_plain(f"{base}{rest}"), int(axis))
        for pattern in (
            r"L\['(\w+)'\](\S*?)\.size\(\)\[(\d+)\]",
            r"inputs\['?(\w+)'?\](\S*?)\.shape\[(\d+)\]",
        )
        for base, rest, axis in re.findall(pattern, text)
    }
    places = []
    for leaf in leaves:
        for axis, dim in leaf.dims().items():
            name = getattr(dim, "__name__", None) or getattr(dim, "name", None)
            if name in violated or (_plain(leaf.path), axis) in sources:
                size = leaf.value.shape[axis] if isinstance(leaf.value, torch.Tensor) else "?"
                places.append(
                    f"  input '{leaf.path}', dimension {axis} ({name or dim}), size {size} in args"
                )
    said = [line.strip() for line in text.splitlines() if line.strip().startswith("- ")]
    reasons = [line.partition(" If you're using ")[0] for line in said]  # of mark_dynamic
    fixes = _suggested_fixes(text)
    lines = ["the dynamic shapes do not fit the model:", *places]
    lines += (f"  {reason}" for reason in reasons[:MOST_REASONS])
    if len(reasons) > MOST_REASONS:
        lines.append(
            f"  ... and {len(reasons) - MOST_REASONS} more (error.details has torch's words)"
        )
    if fixes:
        lines += ["torch suggests:", *(f"  {fix}" for fix in fixes)]
    lines += _REMEDIES
    return ExportError("\n".join(lines), details="\n".join([*lines, "", text]))


def _plain(path: str) -> str:
    """A way to a leaf in one spelling: torch writes ``['key']`` where we may write ``.key``."""
    return re.sub(r"\['(\w+)'\]", r".\1", path)


def _suggested_fixes(text: str) -> list[str]:
    _, found, rest = text.partition("Suggested fixes:")
    if not found:
        return []
    return [line.strip() for line in rest.partition("\n\n")[0].splitlines() if line.strip()]
