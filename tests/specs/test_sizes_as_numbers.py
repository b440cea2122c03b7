"""Every argument that is a number, and each place of one that is a list of numbers, given as what a
free size says: the graph computes with it, or the export says for which sizes it holds, or refuses
it by name.

The arguments are those of the specs' sample calls; at the example the number is the sample's own,
and at another size another one. `make opsets` runs a part of the entries, and `make test` a smaller
one, which the commit chooses; some run always.
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
from ortable.errors import ConversionError, ExportError, InputError, UnsupportedCase
from ortable.exporter.capture import guards
from ortable.testing import entries as harness
from ortable_generated.aten.traits import UNINITIALIZED
from ortablegen.aten.model import OpEntry
from ortablegen.aten.samples import parse_sample
from tests.rotation import turn

from .test_cases import ENTRIES

NUMBERS = ("Scalar", "float", "int", "SymInt")
SIZE = 3  # of the example
OTHERS = (4, 5)
PARTS = {"few": 96, "some": 24, "all": 12}  # of the entries: one of so many runs
# Numbers as such are compared by the samples of the specs; here one of another size would show.
TOLERANCES = {torch.float16: (1e-2, 1e-2), torch.bfloat16: (5e-2, 5e-2)}
KNOWN = {
    "aten::lerp.Scalar weight": "complex numbers, a weight of 1 and 1e20: not counted from the end",
}
# torch's kernel trusts these, and writes past its buffers where they do not fit the others.
TRUSTED = ("aten::mkldnn_rnn_layer hidden_size",)
RIGHT = ("exact", "guarded", "refused", "no call")
Function = Callable[[torch.Tensor, Sequence[torch.Tensor]], Any]


@dataclass(frozen=True)
class Call:
    """A sample call with one number that moves with a size; ``number``: what it is in the sample,
    ``place``: where in the argument, if that is a list."""

    entry: OpEntry
    name: str
    parsed: dict[str, Any]
    number: float
    place: int | None = None

    @property
    def title(self) -> str:
        place = "" if self.place is None else f"[{self.place}]"
        return f"{self.entry.schema.key} {self.name}{place}"

    def tensors(self) -> list[torch.Tensor]:
        return harness.make_tensors(self.parsed)

    def __call__(self, sized: torch.Tensor, tensors: Sequence[torch.Tensor]) -> Any:
        more = sized.shape[0] - SIZE
        moved: Any = self.number + more * (0.5 if isinstance(self.number, float) else 1)
        if self.place is not None:
            listed = self.parsed[self.name]
            moved = [*listed[: self.place], moved, *listed[self.place + 1 :]]
        return harness.call_eager(self.entry.schema, {**self.parsed, self.name: moved}, tensors)


class Module(torch.nn.Module):
    def __init__(self, call: Function) -> None:
        super().__init__()
        self.call = call

    def forward(self, sized: torch.Tensor, tensors: Sequence[torch.Tensor]) -> Any:
        return self.call(sized, tensors)


def calls_of(entry: OpEntry) -> Iterator[Call]:
    """For each number that the operator takes, the first sample call that gives one."""
    for argument in entry.schema.arguments:
        found: set[int | None] = set()
        for parsed in _parsed(entry):
            value = parsed.get(argument.name, argument.default)
            for place, number in _numbers(argument.type, value):
                if place not in found:
                    found.add(place)
                    yield Call(entry, argument.name, parsed, number, place)


def _parsed(entry: OpEntry) -> list[dict[str, Any]]:
    # of some, eager gives zeros: a node of ONNX that torch has no kernel for
    samples = [each for each in entry.samples if each.raises is None and not each.random]
    return [parse_sample(sample, entry.schema) for sample in samples]


def _numbers(kind: str, value: Any) -> Iterator[tuple[int | None, float]]:
    """The numbers of an argument of a type, each with its place if they are a list."""
    inner, _, _ = kind.rstrip("?").partition("[")
    if inner not in NUMBERS:
        return
    listed = value if isinstance(value, list | tuple) else [value]
    for place, number in enumerate(listed):
        if type(number) in (int, float):
            yield place if listed is value else None, number


def eager(call: Call, size: int) -> Any:
    """What eager gives there, or the error that it raises."""
    try:
        return call(torch.zeros(size), call.tensors())
    except Exception as error:  # of many types: the number is none that the operator takes
        return error


def outcome(call: Call) -> str:
    """ "exact", "guarded" (the model says for which sizes it holds), "refused", "no call" where
    eager does not take it; else what is wrong."""
    wanted = {size: eager(call, size) for size in (SIZE, *OTHERS)}
    if isinstance(wanted[SIZE], Exception):
        return "no call"
    tensors = call.tensors()
    shapes = {"sized": {0: "n"}, "tensors": [{} for _ in tensors]}
    try:
        program = ortable.export(Module(call), (torch.zeros(SIZE), tensors), dynamic_shapes=shapes)
    except UnsupportedCase:
        return "refused"
    except (ExportError, ConversionError) as error:
        # an error of Python's inside a converter is no refusal
        text = str(error)
        return "refused" if "could not be converted" not in text else text.splitlines()[0]
    guarded = False
    for size, expected in wanted.items():
        if isinstance(expected, Exception):
            continue
        try:
            got = program(torch.zeros(size), tensors)
        except InputError as error:
            if size == SIZE:
                return f"at the example: {error}"
            guarded = True
            continue
        text = _difference(expected, got)
        if text:
            return f"at {size}: {text}"
    return "guarded" if guarded else "exact"


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
            random = torch.Tag.nondeterministic_seeded in target.tags
            if not random and target.name() not in UNINITIALIZED:
                yield entry


def outcomes(entry: OpEntry) -> dict[str, str]:
    """What becomes of each argument."""
    logging.disable(logging.ERROR)  # torch tells in a log what it raises, too
    warnings.simplefilter("ignore")
    return {call.title: outcome(call) for call in calls_of(entry) if call.title not in TRUSTED}


def apart(entry: OpEntry) -> dict[str, str]:
    """The same in a process of its own: torch ends it for some numbers."""
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe(duplex=False)
    child = context.Process(target=lambda: theirs.send(outcomes(entry)))
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
    wrong = {n: text for n, text in found.items() if text not in RIGHT and n not in KNOWN}
    assert not wrong, "\n".join(f"{name}: {text}" for name, text in wrong.items())


@pytest.mark.parametrize(
    ("key", "name", "expected"),
    [
        ("aten::add.Tensor", "alpha", "exact"),
        ("aten::addmm", "alpha", "exact"),
        ("aten::addmm", "beta", "exact"),
        ("aten::celu", "alpha", "exact"),
        ("aten::elu", "alpha", "exact"),
        ("aten::leaky_relu", "negative_slope", "exact"),
        ("aten::pow.Tensor_Scalar", "exponent", "exact"),
        ("aten::embedding_dense_backward", "padding_idx", "exact"),
        ("aten::fft_fft2", "s[0]", "guarded"),
        ("aten::layer_norm", "eps", "guarded"),
        # torch asks whether it is 0.5, which it is in the example
        ("aten::float_power.Tensor_Scalar", "exponent", "guarded"),
        ("aten::elu", "scale", "refused"),
        ("aten::histc", "bins", "refused"),
    ],
)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_what_becomes_of_a_number(key: str, name: str, expected: str) -> None:
    assert outcome(_call(key, name)) == expected


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_number_of_the_example_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guards, "_makes_number_constant", lambda expression: False)
    assert outcome(_call("aten::layer_norm", "eps")).startswith("at 4: Tensor-likes are not close")


def test_a_converter_that_needs_a_number_names_the_argument() -> None:
    call = _call("aten::elu", "scale")
    shapes = {"sized": {0: "n"}, "tensors": [{} for _ in call.tensors()]}
    with pytest.raises(UnsupportedCase, match="'scale' is a number that the model computes from"):
        ortable.export(Module(call), (torch.zeros(3), call.tensors()), dynamic_shapes=shapes)


def _call(key: str, argument: str) -> Call:
    entry = ENTRIES[key]
    assert isinstance(entry, OpEntry)
    return next(call for call in calls_of(entry) if call.title == f"{key} {argument}")
