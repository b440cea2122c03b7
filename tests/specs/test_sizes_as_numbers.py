"""Every number of a call may be computed from a dynamic size.

The graph computes with it, or the export limits the sizes, or refuses the call by name. The calls
are the specs' sample calls, whose number changes with the size. `make opsets` runs a part of the
entries, and `make test` a smaller one, which the commit selects; some always run.
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
from tests.rotation import rotation_seed

from .test_cases import ENTRIES, why_absent

NUMBERS = ("Scalar", "float", "int", "SymInt")
SIZE = 3  # of the example
OTHER_SIZES = (4, 5)
PARTS = {"few": 96, "some": 24, "all": 12}  # one of so many entries runs
# The samples of the specs compare precisely; here a number of another size exceeds the tolerance.
TOLERANCES = {torch.float16: (1e-2, 1e-2), torch.bfloat16: (5e-2, 5e-2)}
KNOWN = {
    "aten::lerp.Scalar weight": "complex numbers, a weight of 1 and 1e20: not counted from the end",
}
# torch's kernel does not check these, and writes out of bounds where they are wrong.
UNCHECKED = ("aten::mkldnn_rnn_layer hidden_size",)
ACCEPTED = ("exact", "guarded", "refused", "no call")
Function = Callable[[torch.Tensor, Sequence[torch.Tensor]], Any]


@dataclass(frozen=True)
class Call:
    """A sample call with one number that changes with a size.

    ``number``: its value in the sample; ``index``: its position in the argument, if that is a list.
    """

    entry: OpEntry
    name: str
    parsed: dict[str, Any]
    number: float
    index: int | None = None

    @property
    def title(self) -> str:
        suffix = "" if self.index is None else f"[{self.index}]"
        return f"{self.entry.schema.key} {self.name}{suffix}"

    def tensors(self) -> list[torch.Tensor]:
        return harness.make_tensors(self.parsed)

    def __call__(self, sized: torch.Tensor, tensors: Sequence[torch.Tensor]) -> Any:
        added_size = sized.shape[0] - SIZE
        value: Any = self.number + added_size * (0.5 if isinstance(self.number, float) else 1)
        if self.index is not None:
            items = self.parsed[self.name]
            value = [*items[: self.index], value, *items[self.index + 1 :]]
        return harness.call_eager(self.entry.schema, {**self.parsed, self.name: value}, tensors)


class Module(torch.nn.Module):
    def __init__(self, call: Function) -> None:
        super().__init__()
        self.call = call

    def forward(self, sized: torch.Tensor, tensors: Sequence[torch.Tensor]) -> Any:
        return self.call(sized, tensors)


def calls_of(entry: OpEntry) -> Iterator[Call]:
    """Yield for each number that the operator takes the first sample call that has one."""
    for argument in entry.schema.arguments:
        seen: set[int | None] = set()
        for parsed in _parse_samples(entry):
            value = parsed.get(argument.name, argument.default)
            for index, number in _numbers(argument.type, value):
                if index not in seen:
                    seen.add(index)
                    yield Call(entry, argument.name, parsed, number, index)


def _parse_samples(entry: OpEntry) -> list[dict[str, Any]]:
    # random samples include ONNX nodes without a kernel in torch, for which eager returns zeros
    samples = [s for s in entry.samples if s.raises is None and not s.random]
    return [parse_sample(sample, entry.schema) for sample in samples]


def _numbers(kind: str, value: Any) -> Iterator[tuple[int | None, float]]:
    """Yield the numbers of an argument of a type, each with its index in a list."""
    inner, _, _ = kind.rstrip("?").partition("[")
    if inner not in NUMBERS:
        return
    items = value if isinstance(value, list | tuple) else [value]
    for index, number in enumerate(items):
        if type(number) in (int, float):
            yield index if items is value else None, number


def eager(call: Call, size: int) -> Any:
    """Return eager's result at a size, or its error."""
    try:
        return call(torch.zeros(size), call.tensors())
    except Exception as error:  # the type depends on the operator, which refuses the number
        return error


def outcome(call: Call) -> str:
    """Return "exact", "guarded" (the model limits the sizes), "refused", or a failure.

    "no call" means that eager refuses the example.
    """
    results_by_size = {size: eager(call, size) for size in (SIZE, *OTHER_SIZES)}
    if isinstance(results_by_size[SIZE], Exception):
        return "no call"
    tensors = call.tensors()
    shapes = {"sized": {0: "n"}, "tensors": [{} for _ in tensors]}
    try:
        program = ortable.export(Module(call), (torch.zeros(SIZE), tensors), dynamic_shapes=shapes)
    except UnsupportedCase:
        return "refused"
    except (ExportError, ConversionError) as error:
        # a Python error inside a converter is no refusal
        text = str(error)
        return "refused" if "could not be converted" not in text else text.splitlines()[0]
    is_guarded = False
    for size, expected in results_by_size.items():
        if isinstance(expected, Exception):
            continue
        try:
            result = program(torch.zeros(size), tensors)
        except InputError as error:
            if size == SIZE:
                return f"at the example: {error}"
            is_guarded = True
            continue
        text = _difference(expected, result)
        if text:
            return f"at {size}: {text}"
    return "guarded" if is_guarded else "exact"


def _difference(expected: Any, result: Any) -> str:
    pairs = zip(pytree.tree_leaves(expected), pytree.tree_leaves(result), strict=True)
    for eager_leaf, leaf in pairs:
        if isinstance(eager_leaf, torch.Tensor):
            rtol, atol = TOLERANCES.get(eager_leaf.dtype, (1e-3, 1e-4))
            try:
                torch.testing.assert_close(leaf, eager_leaf, rtol=rtol, atol=atol, equal_nan=True)
            except AssertionError as error:
                return str(error).splitlines()[0]
    return ""


def available_entries() -> Iterator[OpEntry]:
    """Yield the entries of this torch and its packages that are deterministic."""
    for entry in ENTRIES.values():
        if isinstance(entry, OpEntry) and not entry.schema.is_mutable and why_absent(entry) is None:
            target = harness.overload_of(entry.schema)
            random = torch.Tag.nondeterministic_seeded in target.tags
            if not random and target.name() not in UNINITIALIZED:
                yield entry


def outcomes(entry: OpEntry) -> dict[str, str]:
    """Return the outcome for each argument."""
    logging.disable(logging.ERROR)  # torch also logs the errors that it raises
    warnings.simplefilter("ignore")
    return {call.title: outcome(call) for call in calls_of(entry) if call.title not in UNCHECKED}


def outcomes_in_child(entry: OpEntry) -> dict[str, str]:
    """Return the outcomes from a child process: torch crashes for some numbers."""
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    child = context.Process(target=lambda: sender.send(outcomes(entry)))
    child.start()
    sender.close()
    try:
        results: dict[str, str] = receiver.recv()
    except EOFError:
        results = {entry.schema.key: "the process died"}
    child.join()
    return results


@pytest.mark.opsets
def test_a_number_that_a_size_says(request: pytest.FixtureRequest) -> None:
    parts = PARTS[request.config.getoption("--opsets")]
    selected = list(available_entries())[rotation_seed() % parts :: parts]
    results = {name: text for entry in selected for name, text in outcomes_in_child(entry).items()}
    failures = {n: text for n, text in results.items() if text not in ACCEPTED and n not in KNOWN}
    assert not failures, "\n".join(f"{name}: {text}" for name, text in failures.items())


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
        # torch guards on an exponent of 0.5, which is that of the example
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
