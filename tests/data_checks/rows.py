"""The rows of `checks:` in specs/aten, each called in eager and through the backend with the sample
call that torch refuses, and what a call raises. Called by the command line and by tests."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from ortable.testing.entries import call_arguments, fill_samples, make_tensors, overload_of
from ortablegen.aten.model import DataCheck, OpEntry
from ortablegen.aten.read import read_folder
from ortablegen.aten.samples import parse_sample
from ortablegen.source.diagnostics import Diagnostics

ROOT = Path(__file__).parents[2]
_NUMBER = re.compile(r"-?\d+")


@dataclass(frozen=True)
class Outcome:
    """The class of the exception that a call raised, and the first line of its text; or ""."""

    error: str = ""
    text: str = ""

    def is_like(self, other: Outcome) -> bool:
        """Whether both raised the same class with the same words; numbers may differ, because torch
        names the first element out of range, and the backend the one furthest out."""
        return self.error == other.error and _words(self.text) == _words(other.text)


def outcome_of(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Outcome:
    """Calls a function, and says what it raised."""
    try:
        function(*args, **kwargs)
    except Exception as error:
        return Outcome(type(error).__name__, str(error).partition("\n")[0])
    return Outcome()


def _words(text: str) -> str:
    return _NUMBER.sub("#", text)


@dataclass(frozen=True)
class Row:
    """One demand of an operator: its entry, and its position among the demands of that entry."""

    entry: OpEntry
    check: DataCheck
    position: int

    @property
    def name(self) -> str:
        """`aten::gather/1` for the first demand."""
        return f"{self.entry.key}/{self.position}"


def all_rows() -> Iterator[Row]:
    """Every row of the tables, in their order."""
    specs = read_folder(ROOT / "specs" / "aten", ROOT, Diagnostics())
    for entry in specs.ops:
        for position, check in enumerate(entry.checks, 1):
            yield Row(entry, check, position)


def run_row(row: Row, backend: str | None) -> Outcome:
    """What the sample call of a row raises: in eager (None), or compiled by a backend."""
    schema = row.entry.schema
    parsed = parse_sample(row.check.repro, schema)
    tensors = iter(make_tensors(parsed))
    args, kwargs = call_arguments(schema, {k: fill_samples(v, tensors) for k, v in parsed.items()})
    overload = overload_of(schema)
    return outcome_of(compiled(lambda *a, **k: overload(*a, **k), backend), *args, **kwargs)


def compiled(
    function: Callable[..., Any], backend: str | None, whole: bool = True
) -> Callable[..., Any]:
    """A function as it is (None), or compiled, sizes that data say included."""
    if backend is None:
        return function
    torch.compiler.reset()
    compile_it = torch.compile(function, backend=backend, fullgraph=whole)

    def call(*args: Any, **kwargs: Any) -> Any:
        with torch._dynamo.config.patch(
            capture_dynamic_output_shape_ops=True, capture_scalar_outputs=True
        ):
            return compile_it(*args, **kwargs)

    return call
