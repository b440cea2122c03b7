"""What `explain` returns: an Explanation of graphs and breaks, as text, as Markdown, as JSON.
Filled by `explain`; read by users and by the shell."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from onnx import ModelProto

from .explain_fusion import Fusion

__all__ = ["Explanation", "GraphBreak", "GraphExplanation", "TorchOperator"]


@dataclass(frozen=True)
class GraphBreak:
    """A place where dynamo ended a graph: what it met there, why that ends a graph, what to do
    about it, in words; and the user's line, `times` times the same."""

    what: str
    why: str
    hints: tuple[str, ...]
    function: str
    file: str
    line: int
    code: str
    times: int = 1

    @property
    def where(self) -> str:
        """`model.py:12`"""
        return f"{os.path.basename(self.file)}:{self.line}" if self.file else "an unknown place"


@dataclass(frozen=True)
class TorchOperator:
    """An operator that torch runs, between sessions of ONNX Runtime: at which lines, and why.
    `unsupported` where ortable cannot convert it: an error without `fallback="eager"`."""

    operator: str
    calls: int
    why: str
    lines: tuple[str, ...]
    unsupported: bool


@dataclass(frozen=True)
class GraphExplanation:
    """One compiled graph, the `number`-th of dynamo's.

    `operators` are torch's, `nodes` ONNX nodes by operator, `session_nodes` those that ONNX Runtime
    runs (None where it was not asked), by `fusions` and without the nodes that are `removed`.
    `frozen` is the number of weights that are constants of a session, `frozen_bytes` their size,
    `not_frozen` why there is none.  `cache` says for each session where its conversion was found:
    "miss", "memory", "disk".  `seconds` are those of the phases.  `onnx` are the models, one a
    session.
    """

    number: int
    kind: str
    function: str
    file: str
    line: int
    operators: Mapping[str, int]
    nodes: Mapping[str, int]
    session_nodes: Mapping[str, int] | None
    fusions: tuple[Fusion, ...]
    removed: Mapping[str, int]
    torch: tuple[TorchOperator, ...]
    providers: tuple[str, ...]
    frozen: int
    frozen_bytes: int
    not_frozen: str
    cache: tuple[str, ...]
    seconds: Mapping[str, float]
    rewrites: Mapping[str, int]
    refused: Mapping[str, Mapping[str, int]]
    onnx: tuple[ModelProto, ...] = field(repr=False, compare=False)

    @property
    def where(self) -> str:
        """`Model.forward (model.py:12)`"""
        if not self.function:
            return "a function of torch"
        return f"{self.function} ({os.path.basename(self.file)}:{self.line})"


@dataclass(frozen=True)
class Explanation:
    """What `torch.compile(model, backend="ortable")` makes of one call; `str` and `print` give the
    text.

    `graph_count` is the number of dynamo's graphs; each one is one of `graphs`, or, with gradients,
    two: forward and backward.  `notes` say what else one should know.
    """

    graph_count: int
    graphs: tuple[GraphExplanation, ...]
    breaks: tuple[GraphBreak, ...]
    notes: tuple[str, ...] = ()

    @property
    def unsupported(self) -> tuple[TorchOperator, ...]:
        """The operators that ortable cannot convert, of all graphs."""
        found = (each for graph in self.graphs for each in graph.torch if each.unsupported)
        return tuple(found)

    def __str__(self) -> str:
        from .explain_text import as_text

        return as_text(self)

    def to_markdown(self) -> str:
        """The same as a page of Markdown."""
        from .explain_text import as_markdown

        return as_markdown(self)

    def as_dict(self) -> dict[str, Any]:
        """The same as plain values; without the models."""
        graphs = tuple(dataclasses.replace(graph, onnx=()) for graph in self.graphs)
        found = _plain(dataclasses.replace(self, graphs=graphs))
        for graph in found["graphs"]:
            del graph["onnx"]
        assert isinstance(found, dict)
        return found

    def to_json(self, indent: int | None = 2) -> str:
        """`as_dict` as JSON."""
        return json.dumps(self.as_dict(), indent=indent)


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value):
        return {f.name: _plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return value
