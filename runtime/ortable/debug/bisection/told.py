"""Where an application of a part comes from, in words of the user's model. In come the origin of a
node and converted graphs, out come texts; called by `search`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch.fx import Node

from ortable.backend.roles import CompiledGraph
from ortable.compat.bisector import Application
from ortable.interpreter.diagnostics.origin import module_path, source_line
from ortable.ir.origins import Rewritten


def _original(origin: Any) -> Any:
    """The FX node, or the metadata of a model that was read, behind rewrites."""
    return origin.original() if isinstance(origin, Rewritten) else origin


def module_of(origin: Any) -> str:
    """Path and class of the module: `layers.1 (ReLU)`."""
    found = _original(origin)
    if isinstance(found, dict):
        return str(found.get("module", ""))
    if not isinstance(found, Node):
        return ""
    path, kind = module_path(found)
    return f"{path or '(root)'} ({kind})" if kind else path


def source_of(origin: Any) -> str:
    """File, line and text of the model."""
    found = _original(origin)
    if isinstance(found, dict):
        return str(found.get("source", ""))
    if not isinstance(found, Node):
        return ""
    line = source_line(found)
    return "" if line is None else f"{line.file}:{line.line}: {line.code}"


def case_of(about: Application, graphs: Sequence[CompiledGraph]) -> int:
    """Which case of its entry converted the node, from 1; 0 for an entry with one case."""
    for graph in graphs:
        for name in about.nodes:
            key, _, number = graph.cases.get(name, "").partition("/")
            if key == about.name and number.isdigit():
                return int(number)
    return 0
