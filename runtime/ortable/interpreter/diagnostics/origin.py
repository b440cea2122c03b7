"""Find the origin of an FX node for ONNX metadata and messages: module, target, source line."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import torch
from torch.fx import Node

from ortable.compat.torch import HigherOrderOperator, OpOverload, OpOverloadPacket

_FRAME = re.compile(
    r'File "(?P<file>[^"]+)", line (?P<line>\d+), in [^\n]*\n?[ \t]*(?P<code>[^\n]*)'
)
_ROOT = "_export_root"  # torch.export's name of the module in subgraphs of higher-order operators
_TORCH = os.path.dirname(torch.__file__) + os.sep


@dataclass(frozen=True)
class SourceLine:
    """A source line of the user's model that torch recorded."""

    file: str
    line: int
    code: str

    def __str__(self) -> str:
        return self.text

    @cached_property
    def text(self) -> str:
        """File name, line number and code in one line."""
        text = f"{os.path.basename(self.file)}:{self.line}"
        return f"{text}: {self.code}" if self.code else text


def source_line(node: Node) -> SourceLine | None:
    """Return the innermost frame outside torch in the stack trace of a node, or None.

    If all frames are torch's, it is the innermost one of them.
    """
    trace = node.meta.get("stack_trace")
    return _parse_trace(trace) if trace else None


@lru_cache(maxsize=4096)  # all nodes of a source line have equal traces
def _parse_trace(trace: str) -> SourceLine | None:
    # without generated code, whose file is for example `<eval_with_key>.0`
    frames = [match for match in _FRAME.finditer(trace) if os.sep in match["file"]]
    if not frames:
        return None
    user_frames = [frame for frame in frames if not frame["file"].startswith(_TORCH)]
    innermost = (user_frames or frames)[-1]
    return SourceLine(innermost["file"], int(innermost["line"]), innermost["code"].strip())


def module_path(node: Node) -> tuple[str, str]:
    """Return path and class name of the innermost module of a node, or two empty strings.

    For example, ``("layers.0.fc", "Linear")``.
    """
    stack = _module_stack(node)
    return _module_entry(*next(reversed(stack.values()))) if stack else ("", "")


def called_modules(node: Node) -> list[tuple[str, str]]:
    """Return path and class name of each module in which a node was traced, outermost first."""
    return [_module_entry(*entry) for entry in _module_stack(node).values()]


def _module_stack(node: Node) -> dict[str, tuple[str, Any]]:
    return node.meta.get("nn_module_stack") or node.meta.get("fwd_nn_module_stack") or {}


def _module_entry(path: str, module_class: Any) -> tuple[str, str]:
    return _normalize_module(
        path, module_class if isinstance(module_class, str) else module_class.__qualname__
    )


@lru_cache(maxsize=4096)  # the nodes of a module have equal entries
def _normalize_module(path: str, class_name: str) -> tuple[str, str]:
    if path.startswith("_empty_nn_module_stack"):
        return "", ""
    if path.startswith("L['"):  # dynamo's name of a local variable that holds the module
        root, _, inner_path = path[3:].partition("']")
        path = inner_path.removeprefix(".") if root in ("self", "fn") else root + inner_path
    if path == _ROOT or path.startswith(f"{_ROOT}."):
        path = path[len(_ROOT) + 1 :]
    return path, class_name.rpartition(".")[2]


def target_name(target: Any) -> str:
    """Return the name of a target in messages and metadata, such as ``aten.add.Tensor``."""
    if isinstance(target, str):
        return target
    if isinstance(target, (OpOverload, OpOverloadPacket, HigherOrderOperator)):
        return str(target)
    module = getattr(target, "__module__", None) or "torch"
    name = (
        getattr(target, "__qualname__", None) or getattr(target, "__name__", None) or repr(target)
    )
    return f"{module.removeprefix('_') if module == '_operator' else module}.{name}"


def metadata_of(node: Node) -> dict[str, str]:
    """Return the ``metadata_props`` for the ONNX nodes of an FX node."""
    metadata = {"fx_node": node.name, "aten_target": target_name(node.target)}
    path, _ = module_path(node)
    if path:
        metadata["module_path"] = path
    source = source_line(node)
    if source is not None:
        metadata["source"] = str(source)
    return metadata


def metadata_reader() -> Callable[[object], dict[str, str]]:
    """Return a function for ``GraphBuilder.origin_metadata`` that caches metadata by FX node."""
    records: dict[object, dict[str, str]] = {}

    def read_metadata(origin: object) -> dict[str, str]:
        if not isinstance(origin, Node):
            return {}
        record = records.get(origin)
        if record is None:
            record = records[origin] = metadata_of(origin)
        return record

    return read_metadata
