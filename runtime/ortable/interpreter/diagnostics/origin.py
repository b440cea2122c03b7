"""Where a node comes from: FX name, ATen target, path of the submodule, line of the user's model.
Computed once per FX node and only when asked for: at serialisation, or for an error message."""

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
_ROOT = "_export_root"  # what torch.export calls the module inside graphs of higher-order operators
_TORCH = os.path.dirname(torch.__file__) + os.sep


@dataclass(frozen=True)
class SourceLine:
    """A line of the user's model, as torch recorded it."""

    file: str
    line: int
    code: str

    def __str__(self) -> str:
        return self.text

    @cached_property
    def text(self) -> str:
        """File, line number and code, as one line."""
        text = f"{os.path.basename(self.file)}:{self.line}"
        return f"{text}: {self.code}" if self.code else text


def source_line(node: Node) -> SourceLine | None:
    """The innermost frame outside torch of the trace that torch kept for ``node``; None when it
    kept none."""
    trace = node.meta.get("stack_trace")
    return _line_of(trace) if trace else None


@lru_cache(maxsize=4096)  # the nodes that one line makes have equal traces
def _line_of(trace: str) -> SourceLine | None:
    frames = [match for match in _FRAME.finditer(trace) if os.sep in match["file"]]
    if not frames:
        return None
    users = [frame for frame in frames if not frame["file"].startswith(_TORCH)]
    innermost = (users or frames)[-1]
    return SourceLine(innermost["file"], int(innermost["line"]), innermost["code"].strip())


def module_path(node: Node) -> tuple[str, str]:
    """Dotted path and class name of the innermost submodule that ``node`` was traced in, ``("",
    "")`` when unknown."""
    stack = _module_stack(node)
    return _module_entry(*next(reversed(stack.values()))) if stack else ("", "")


def called_modules(node: Node) -> list[tuple[str, str]]:
    """Dotted path and class name of every module that ``node`` was traced in, outermost first."""
    return [_module_entry(*entry) for entry in _module_stack(node).values()]


def _module_stack(node: Node) -> dict[str, tuple[str, Any]]:
    return node.meta.get("nn_module_stack") or node.meta.get("fwd_nn_module_stack") or {}


def _module_entry(path: str, kind: Any) -> tuple[str, str]:
    return _plain_module(path, kind if isinstance(kind, str) else kind.__qualname__)


@lru_cache(maxsize=4096)  # each node names all modules around it
def _plain_module(path: str, kind: str) -> tuple[str, str]:
    if path.startswith("_empty_nn_module_stack"):
        return "", ""
    if path.startswith("L['"):  # as dynamo writes it: the local variable that holds the module
        root, _, inner = path[3:].partition("']")
        path = inner.removeprefix(".") if root in ("self", "fn") else root + inner
    if path == _ROOT or path.startswith(f"{_ROOT}."):
        path = path[len(_ROOT) + 1 :]
    return path, kind.rpartition(".")[2]


def target_name(target: Any) -> str:
    """How messages and metadata call the target of a node: ``aten.add.Tensor``,
    ``operator.getitem``, ``sum``."""
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
    """``metadata_props`` of the ONNX nodes made for ``node``: fx_node, aten_target, module_path,
    source."""
    metadata = {"fx_node": node.name, "aten_target": target_name(node.target)}
    path, _ = module_path(node)
    if path:
        metadata["module_path"] = path
    source = source_line(node)
    if source is not None:
        metadata["source"] = str(source)
    return metadata


def metadata_reader() -> Callable[[object], dict[str, str]]:
    """A function for ``GraphBuilder.origin_metadata``; the record of an FX node is made once,
    whoever asks again."""
    records: dict[object, dict[str, str]] = {}

    def read_metadata(origin: object) -> dict[str, str]:
        if not isinstance(origin, Node):
            return {}
        record = records.get(origin)
        if record is None:
            record = records[origin] = metadata_of(origin)
        return record

    return read_metadata
