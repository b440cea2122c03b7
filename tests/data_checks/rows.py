"""Run the samples of the rows of `checks:` in specs/aten in eager and with the backend."""

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
    """The class of the exception of a call, and the first line of its message; or empty."""

    error: str = ""
    text: str = ""

    def is_like(self, other: Outcome) -> bool:
        """Return whether class and message are equal, except for the number of the bad element."""
        return self.error == other.error and _without_numbers(self.text) == _without_numbers(
            other.text
        )


def outcome_of(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Outcome:
    """Call a function, and return its outcome."""
    try:
        function(*args, **kwargs)
    except Exception as error:
        return Outcome(type(error).__name__, str(error).partition("\n")[0])
    return Outcome()


def _without_numbers(text: str) -> str:
    return _NUMBER.sub("#", text)


@dataclass(frozen=True)
class Row:
    """A check of an operator: its entry, and its position among the checks of that entry."""

    entry: OpEntry
    check: DataCheck
    position: int

    @property
    def name(self) -> str:
        """Return `aten::gather/1` for the first check."""
        return f"{self.entry.key}/{self.position}"


def all_rows() -> Iterator[Row]:
    """Yield every row of the tables, in order."""
    specs = read_folder(ROOT / "specs" / "aten", ROOT, Diagnostics())
    for entry in specs.ops:
        for position, check in enumerate(entry.checks, 1):
            yield Row(entry, check, position)


def run_row(row: Row, backend: str | None) -> Outcome:
    """Return the error of a row's sample call: in eager (None), or compiled by a backend."""
    schema = row.entry.schema
    parsed = parse_sample(row.check.repro, schema)
    tensors = iter(make_tensors(parsed))
    args, kwargs = call_arguments(schema, {k: fill_samples(v, tensors) for k, v in parsed.items()})
    overload = overload_of(schema)
    return outcome_of(compiled(lambda *a, **k: overload(*a, **k), backend), *args, **kwargs)


def compiled(
    function: Callable[..., Any], backend: str | None, fullgraph: bool = True
) -> Callable[..., Any]:
    """Return a function unchanged (None), or compiled with data-dependent sizes."""
    if backend is None:
        return function
    torch.compiler.reset()
    compiled_function = torch.compile(function, backend=backend, fullgraph=fullgraph)

    def call(*args: Any, **kwargs: Any) -> Any:
        with torch._dynamo.config.patch(
            capture_dynamic_output_shape_ops=True, capture_scalar_outputs=True
        ):
            return compiled_function(*args, **kwargs)

    return call
