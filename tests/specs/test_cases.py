"""Every sample call of every spec entry equals eager; its rules too.

`make opsets` runs each sample call at every opset for both targets, the gate at a third of these,
`make test` at one of their ends. The commit chooses, and neighbours run at others.
"""

from __future__ import annotations

import contextlib
import itertools
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from ortable.testing import entries as harness
from ortablegen.aten.model import AliasEntry, OpEntry, Sample, Targets
from ortablegen.aten.read import read_folder
from ortablegen.schemas.onnx import CEILING, FLOOR
from ortablegen.schemas.registry import import_problem, installed_torch
from ortablegen.source.diagnostics import Diagnostics
from tests.rotation import turn

from .reached import opsets_of

ROOT = Path(__file__).parents[2]
# Cases that no sample call takes: a number that only the running model knows (those of sizes are in
# test_sizes_as_numbers), a result that nobody reads, a quantized model around the call, an argument
# that torch refuses. What another call could take has no place here.
UNTAKEN = frozenset(
    {
        "aten::_batch_norm_no_update/2",
        "aten::_grouped_mm/1",
        "aten::_jagged_to_padded_dense_forward/1",
        "aten::_native_batch_norm_legit.no_stats/1",
        "aten::_padded_dense_to_jagged_forward/1",
        "aten::_scaled_dot_product_flash_attention_for_cpu_backward/1",
        "aten::adaptive_max_pool1d/1",
        "aten::adaptive_max_pool3d/1",
        "aten::batch_norm/3",
        "aten::instance_norm/2",
        "aten::div.Scalar_mode/5",
        "aten::div.Tensor_mode/5",
        "aten::dropout/3",
        "aten::float_power.Tensor_Scalar/3",
        "aten::lerp.Scalar/1",
        "aten::lerp.Scalar/4",
        "aten::linear/2",
        "aten::native_batch_norm/3",
        "aten::native_dropout/3",
        "aten::one_hot/2",
        "aten::pow.Tensor_Scalar/6",
        "aten::segment_reduce/1",
        "aten::sign/4",
        "aten::view.dtype/2",
        "quantized_decomposed::dequantize_per_tensor.tensor/1",
        "quantized_decomposed::quantize_per_channel/1",
        "quantized_decomposed::quantize_per_tensor.tensor/1",
        "quantized_decomposed::quantize_per_tensor.tensor/2",
    }
)


def _entries() -> list:
    diagnostics = Diagnostics()
    specs = read_folder(ROOT / "specs" / "aten", ROOT, diagnostics)
    diagnostics.raise_if_any()
    return [*specs.ops, *specs.aliases]


# an operator with an entry for each of several ranges of torch's versions has them by these names
ENTRIES = {entry.key + entry.schema.suffix: entry for entry in _entries()}


# tests of a few hundredths of a second each: pytest takes longer to hand out one than it runs
PARTS = 40


def why_absent(entry: OpEntry | AliasEntry) -> str | None:
    """Why the installed torch has no such operator, or the module that registers it cannot be
    imported; None where it has."""
    if not entry.versions.has(installed_torch()):
        return f"only torch {entry.versions.present} has {entry.key}"
    return import_problem(entry.requires) if entry.requires is not None else None


def skip_absent(entry: OpEntry | AliasEntry) -> None:
    """Skip the test where the operator is not there."""
    problem = why_absent(entry)
    if problem is not None:
        pytest.skip(problem)


@contextlib.contextmanager
def naming(key: str) -> Iterator[None]:
    """What fails inside says which entry it is about."""
    try:
        yield
    except Exception as error:
        raise AssertionError(f"{key}: {type(error).__name__}: {error}") from error


# the cases of entries that have several, by the names that errors give them
NUMBERED = {
    name: (key, number)
    for key, entry in ENTRIES.items()
    if isinstance(entry, OpEntry)
    for number, name in enumerate(entry.case_names(), 1)
}


TURN = turn()
# each of the ends of the opsets, for one target
ENDS: tuple[tuple[int, str | None], ...] = ((FLOOR, None), (CEILING, "onnxruntime"))


def _combinations(config: pytest.Config, number: int, sample: Sample) -> list[tuple]:
    """Opsets and targets that a sample call runs at."""
    asked = config.getoption("--opsets")
    if asked != "few":
        every = list(itertools.product(range(FLOOR, CEILING + 1), (None, "onnxruntime")))
        return every if asked == "all" else every[number % 3 :: 3]
    ends = [each for each in ENDS if sample.applies_at(*each)]
    return ends if len(ends) < 2 else [ends[number % 2]]


@pytest.mark.opsets
@pytest.mark.parametrize("key", sorted(ENTRIES))
def test_sample_calls_equal_eager(key: str, request: pytest.FixtureRequest) -> None:
    entry = ENTRIES[key]
    skip_absent(entry)
    first = TURN + zlib.crc32(key.encode())  # not one end for all that have one sample call
    for number, sample in enumerate(entry.samples, first):
        check = harness.SampleCheck(entry.schema, sample)
        for opset, target in _combinations(request.config, number, sample):
            try:
                check.run(opset, target)
            except Exception as error:
                case = check.case
                where = f"{key}{f'/{case}' if case else ''}, sample at {sample.span}"
                where += f", opset {opset}, target {target}"
                raise AssertionError(f"{where}: {type(error).__name__}: {error}") from error


# Rules that leave a shape open although they are no `meta`: what -1 stands for is in FX's metadata.
OPEN = frozenset({"aten::_reshape_copy", "aten::reshape", "aten::view"})
TARGETS = Targets(entry for entry in ENTRIES.values() if isinstance(entry, OpEntry))


def _is_left_to_torch(entry: OpEntry | AliasEntry, number: int, what: str) -> bool:
    """Whether the rule of a result says `meta`, and so nothing."""
    of = entry if isinstance(entry, OpEntry) else TARGETS.find_target(entry)
    assert of is not None
    rule = of.out[min(number, len(of.out) - 1)]  # one rule for all of a list
    return what == "shape" and rule.shape.kind == "meta"


@pytest.mark.parametrize("part", range(PARTS))
def test_rules_equal_eager(part: int) -> None:
    for key in sorted(ENTRIES)[part::PARTS]:
        entry, is_open = ENTRIES[key], False
        if why_absent(entry) is not None:
            continue
        for sample in entry.samples:
            if sample.raises is None:
                with naming(key):
                    left = harness.check_inference_rule(entry.schema, sample)
                is_open |= not all(_is_left_to_torch(entry, *each) for each in left)
        assert is_open == (key in OPEN), f"{key}: whether its rule knows nothing of a result"


def _cases_taken(key: str) -> frozenset[int]:
    """The cases of an entry that its sample calls take: at the lowest and the newest opset, and on
    both sides of those that a case names, for both targets."""
    entry = ENTRIES[key]
    assert isinstance(entry, OpEntry)
    wanted, taken = set(range(1, len(entry.case_names()) + 1)), set[int]()
    checks = [harness.SampleCheck(entry.schema, sample) for sample in entry.samples]
    for opset, target in itertools.product(opsets_of(entry), ("onnxruntime", None)):
        for check in checks:
            if taken == wanted:
                return frozenset(taken)
            if check.sample.applies_at(opset, target):
                with contextlib.suppress(Exception):  # a refusal is a case, too
                    check.convert(opset, target)
                taken.add(check.case)
    return frozenset(taken)


@pytest.mark.parametrize("key", sorted({key for key, _ in NUMBERED.values()}))
def test_a_sample_call_takes_each_case(key: str) -> None:
    skip_absent(ENTRIES[key])
    taken = _cases_taken(key)
    names = {name: number for name, (of, number) in NUMBERED.items() if of == key}
    missing = {name for name, number in names.items() if number not in taken}
    assert missing - UNTAKEN == set(), f"no sample call of {key} takes these"
    assert (names.keys() & UNTAKEN) - missing == set(), "taken now: take them out of UNTAKEN"
