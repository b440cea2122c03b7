"""Every argument that is a number, given as what a free size says: the graph computes with it, or
the export says for which sizes it holds, or refuses it by name.

The arguments are those of the specs' sample calls; at the example the number is the sample's own,
and at another size another one. `make opsets` runs a part of the entries, and `make test` a smaller
one, which the commit chooses.
"""

from __future__ import annotations

import logging
import multiprocessing
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
import torch

import ortable
from ortable.compat.torch import pytree
from ortable.debug.harness import entries as harness
from ortable.errors import ConversionError, ExportError, InputError, UnsupportedCase
from ortablegen.aten.model import OpEntry
from ortablegen.aten.samples import parse_sample
from tests.rotation import turn

from .test_cases import ENTRIES

NUMBERS = ("Scalar", "float", "int", "SymInt")
SIZE = 3  # of the example
OTHERS = (4, 5)
PARTS = {"few": 96, "all": 12}  # of the entries: one of so many runs
# Numbers as such are compared by the samples of the specs; here one of another size would show.
TOLERANCES = {torch.float16: (1e-2, 1e-2), torch.bfloat16: (5e-2, 5e-2)}
KNOWN = {
    "aten::lerp.Scalar weight": "complex numbers, a weight of 1 and 1e20: not counted from the end",
}
Function = Callable[[torch.Tensor, Sequence[torch.Tensor]], Any]


@dataclass(frozen=True)
class Call:
    """A sample call with one argument that moves with a size."""

    entry: OpEntry
    name: str
    values: dict[str, Any]

    def tensors(self) -> list[torch.Tensor]:
        return [each for each in pytree.tree_leaves(self.values) if isinstance(each, torch.Tensor)]

    def __call__(self, sized: torch.Tensor, tensors: Sequence[torch.Tensor]) -> Any:
        given = iter(tensors)
        values = pytree.tree_map_only(torch.Tensor, lambda _: next(given), self.values)
        own, more = values[self.name], sized.shape[0] - SIZE
        values[self.name] = own + more * 0.5 if isinstance(own, float) else own + more
        args, kwargs = harness.call_arguments(self.entry.schema, values)
        return harness.overload_of(self.entry.schema)(*args, **kwargs)


class Module(torch.nn.Module):
    def __init__(self, call: Function) -> None:
        super().__init__()
        self.call = call

    def forward(self, sized: torch.Tensor, tensors: Sequence[torch.Tensor]) -> Any:
        return self.call(sized, tensors)


def calls_of(entry: OpEntry) -> Iterator[Call]:
    """For each number that the operator takes, the first sample call that gives one."""
    for argument in entry.schema.arguments:
        if argument.type.rstrip("?") not in NUMBERS:
            continue
        for sample in entry.samples:
            parsed = parse_sample(sample, entry.schema)
            number = parsed.get(argument.name, argument.default)
            if sample.refused is None and type(number) in (int, float):
                feed = iter(harness.make_tensors(parsed))
                sizes = dict(harness._names(list(parsed.values())))
                values = {
                    name: harness._fill(harness.evaluate(value, sizes), feed)
                    for name, value in parsed.items()
                }
                values.setdefault(argument.name, number)
                if type(values[argument.name]) in (int, float):
                    yield Call(entry, argument.name, values)
                break


def eager(call: Call, size: int) -> Any:
    """What eager gives there, or the error that it raises."""
    try:
        return call(torch.zeros(size), [each.clone() for each in call.tensors()])
    except Exception as error:  # of many types: the number is none that the operator takes
        return error


def problem(call: Call) -> str:
    """What is wrong with the call in a graph; empty when nothing is."""
    wanted = {size: eager(call, size) for size in (SIZE, *OTHERS)}
    if isinstance(wanted[SIZE], Exception):
        return ""
    tensors = call.tensors()
    shapes = {"sized": {0: "n"}, "tensors": [{} for _ in tensors]}
    try:
        program = ortable.export(Module(call), (torch.zeros(SIZE), tensors), dynamic_shapes=shapes)
    except UnsupportedCase:
        return ""
    except (ExportError, ConversionError) as error:
        # an error of Python's inside a converter is no refusal
        return "" if "could not be converted" not in str(error) else str(error).splitlines()[0]
    for size, expected in wanted.items():
        if isinstance(expected, Exception):
            continue
        try:
            got = program(torch.zeros(size), tensors)
        except InputError as error:
            if size != SIZE:  # the model says for which sizes it holds
                continue
            return f"at {size}: {error}"
        text = _difference(expected, got)
        if text:
            return f"at {size}: {text}"
    return ""


def _difference(expected: Any, got: Any) -> str:
    pairs = zip(pytree.tree_leaves(expected), pytree.tree_leaves(got), strict=True)
    for one, other in pairs:
        if isinstance(one, torch.Tensor):
            rtol, atol = TOLERANCES.get(one.dtype, (1e-3, 1e-4))
            try:
                torch.testing.assert_close(other, one, rtol=rtol, atol=atol, equal_nan=True)
            except AssertionError as error:
                return str(error).splitlines()[0]
    return ""


def available() -> Iterator[OpEntry]:
    """Entries of this torch that say the same at every call."""
    for entry in ENTRIES.values():
        if isinstance(entry, OpEntry) and not entry.schema.is_mutable:
            try:
                target = harness.overload_of(entry.schema)
            except AttributeError:  # of a library, or of a newer torch
                continue
            if torch.Tag.nondeterministic_seeded not in target.tags:
                yield entry


def problems(entry: OpEntry) -> dict[str, str]:
    """What is wrong, by argument."""
    logging.disable(logging.ERROR)  # torch tells in a log what it raises, too
    warnings.simplefilter("ignore")
    found = {call.name: problem(call) for call in calls_of(entry)}
    named = {f"{entry.schema.key} {name}": text for name, text in found.items()}
    return {name: text for name, text in named.items() if text and name not in KNOWN}


def apart(entry: OpEntry) -> dict[str, str]:
    """The same in a process of its own: torch ends it for some numbers."""
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe(duplex=False)
    child = context.Process(target=lambda: theirs.send(problems(entry)))
    child.start()
    theirs.close()
    try:
        found: dict[str, str] = ours.recv()
    except EOFError:
        found = {entry.schema.key: "the process died"}
    child.join()
    return found


@pytest.mark.opsets
def test_a_number_that_a_size_says(request: pytest.FixtureRequest) -> None:
    parts = PARTS[request.config.getoption("--opsets")]
    chosen = list(available())[turn() % parts :: parts]
    found = {name: text for entry in chosen for name, text in apart(entry).items()}
    assert not found, "\n".join(f"{name}: {text}" for name, text in found.items())
