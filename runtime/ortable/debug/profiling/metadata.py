"""What the metadata of a node say of where it comes from. In come `metadata_props` by key, as
ortable writes them or as torch.onnx does, out go the path of a module, the target of an FX node,
and a line. Called by `join`."""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Mapping
from typing import Any

from .inline import PATH

_TORCH_ONNX = "pkg.torch.onnx."
_FRAME = re.compile(
    r'File "(?P<file>[^"]+)", line (?P<line>\d+), in [^\n]*\n[ \t]*(?P<code>[^\n]*)'
)
_IN_TORCH = re.compile(r"[/\\]site-packages[/\\]torch[/\\]")


def told(about: Mapping[str, str]) -> tuple[str, str, str]:
    """The module's path, the target and the line; each empty where nothing tells it."""
    if any(key.startswith(_TORCH_ONNX) for key in about):
        return _of_torch_onnx(about)
    return about.get(PATH, ""), about.get("aten_target", ""), about.get("source", "")


def _of_torch_onnx(about: Mapping[str, str]) -> tuple[str, str, str]:
    """The same of a model that torch.onnx wrote: scopes from the root to the node, classes beside
    them, the last one being the operator, and a trace of the stack."""
    scopes = _texts(about.get(f"{_TORCH_ONNX}name_scopes", ""))
    classes = _texts(about.get(f"{_TORCH_ONNX}class_hierarchy", ""))
    frames = list(_FRAME.finditer(about.get(f"{_TORCH_ONNX}stack_trace", "")))
    frames = [each for each in frames if not _IN_TORCH.search(each["file"])] or frames
    line = ""
    if frames:
        last = frames[-1]
        line = f"{os.path.basename(last['file'])}:{last['line']}: {last['code'].strip()}"
    return scopes[-2] if len(scopes) > 1 else "", classes[-1] if classes else "", line


def _texts(written: str) -> list[str]:
    """A list of texts as Python writes it; empty for anything else."""
    try:
        found: Any = ast.literal_eval(written)
    except (SyntaxError, ValueError):
        return []
    return [each for each in found if isinstance(each, str)] if isinstance(found, list) else []
