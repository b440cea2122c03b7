"""Every sample call of every spec entry equals eager, and so do the shape and dtype rules.

`make opsets` runs each sample call at every opset for both targets, the gate at a third of these,
`make test` at the lowest or the newest. The commit selects, and neighbours run at others. Opsets
before those of the converters have one target.
"""

from __future__ import annotations

import contextlib
import itertools
import re
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from ortable.errors import BuilderError
from ortable.ir.versions import OLDEST_WRITTEN_OPSET
from ortable.testing import entries as harness
from ortablegen.aten.model import AliasEntry, OpEntry, Sample, Targets
from ortablegen.aten.read import read_folder
from ortablegen.schemas.onnx import CEILING, FLOOR
from ortablegen.schemas.registry import import_problem, installed_torch
from ortablegen.source.diagnostics import Diagnostics
from tests.rotation import rotation_seed

from .reached import opsets_of

ROOT = Path(__file__).parents[2]
# Cases that a sample call can not take, as they need a number that the model computes (for numbers
# from sizes see test_sizes_as_numbers), a result without a reader, a quantized model around the
# call, or an argument that torch refuses.
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
        "aten::fake_quantize_per_channel_affine/1",
        "aten::fake_quantize_per_tensor_affine/1",
        "aten::fake_quantize_per_tensor_affine.tensor_qparams/1",
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


# the suffix distinguishes entries of one operator for several ranges of torch's versions
ENTRIES = {entry.key + entry.schema.suffix: entry for entry in _entries()}


# parts instead of single tests, as scheduling a test takes pytest longer than such a test runs
PARTS = 40


def why_absent(entry: OpEntry | AliasEntry) -> str | None:
    """Return why torch and its packages lack the operator, None where they have it."""
    if not entry.versions.has(installed_torch()):
        return f"only torch {entry.versions.present} has {entry.key}"
    return import_problem(entry.requires) if entry.requires is not None else None


def skip_absent(entry: OpEntry | AliasEntry) -> None:
    """Skip the test where the operator is missing."""
    problem = why_absent(entry)
    if problem is not None:
        pytest.skip(problem)


@contextlib.contextmanager
def naming(key: str) -> Iterator[None]:
    """Add the key of the entry to errors within the block."""
    try:
        yield
    except Exception as error:
        raise AssertionError(f"{key}: {type(error).__name__}: {error}") from error


# the cases of entries that have several, by their names in errors
NUMBERED = {
    name: (key, number)
    for key, entry in ENTRIES.items()
    if isinstance(entry, OpEntry)
    for number, name in enumerate(entry.case_names(), 1)
}


ROTATION_SEED = rotation_seed()
OLDER_OPSETS = range(OLDEST_WRITTEN_OPSET, FLOOR)
# ONNX operators that have no form before an opset, which refuses the sample calls that need them
REFUSED_BEFORE = {
    "BitwiseAnd": 18, "BitwiseOr": 18, "BitwiseXor": 18, "Col2Im": 18, "DFT": 17, "RoiAlign": 16,
    "Reshape": 14,  # to a shape that may have a size of 0
    "ScatterElements": 18, "ScatterND": 18,  # sums before 16, maxima and minima before 18
}  # fmt: skip
# the lowest and the newest opset, for one target each
ENDS: tuple[tuple[int, str | None], ...] = ((FLOOR, None), (CEILING, "onnxruntime"))


def _combinations(config: pytest.Config, number: int, sample: Sample) -> list[tuple]:
    """Return the opsets and targets at which a sample call runs."""
    selection = config.getoption("--opsets")
    if selection != "few":
        combinations = list(itertools.product(range(FLOOR, CEILING + 1), (None, "onnxruntime")))
        return combinations if selection == "all" else combinations[number % 3 :: 3]
    ends = [end for end in ENDS if sample.applies_at(*end)]
    return ends if len(ends) < 2 else [ends[number % 2]]


@pytest.mark.opsets
@pytest.mark.parametrize("key", sorted(ENTRIES))
def test_sample_calls_equal_eager(key: str, request: pytest.FixtureRequest) -> None:
    entry = ENTRIES[key]
    skip_absent(entry)
    first = ROTATION_SEED + zlib.crc32(key.encode())  # so that entries with one sample differ, too
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
        for opset in _older_opsets(request.config, number, sample):
            with naming(f"{key}, sample at {sample.span}, opset {opset}"):
                _check_older_opset(check, opset)


def _older_opsets(config: pytest.Config, number: int, sample: Sample) -> Sequence[int]:
    """Return the opsets before those of the converters at which a sample call runs."""
    if sample.raises is not None:
        return ()
    selection = config.getoption("--opsets")
    if selection == "few":
        return OLDER_OPSETS[number // 8 % 5 :][:1] if number % 8 == 0 else ()
    return OLDER_OPSETS if selection == "all" else OLDER_OPSETS[number % 5 :][:1]


def _check_older_opset(check: harness.SampleCheck, opset: int) -> None:
    """Compare with eager, unless the opset has no form of an operator of the sample call."""
    try:
        check.run(opset, None)
    except BuilderError as refusal:
        names = re.search(r"Operator '(\w+)'|cannot express (\w+)", str(refusal))
        operator = names and (names[1] or names[2])
        assert opset < REFUSED_BEFORE.get(operator, 0), f"refused: {refusal}"


# Rules other than `meta` that leave a shape open: the size for -1 is only in FX's metadata.
OPEN = frozenset({"aten::_reshape_copy", "aten::reshape", "aten::view"})
TARGETS = Targets(entry for entry in ENTRIES.values() if isinstance(entry, OpEntry))


def _is_left_to_torch(entry: OpEntry | AliasEntry, number: int, aspect: str) -> bool:
    """Return whether the rule of a result is `meta`, which takes FX's shape."""
    target = entry if isinstance(entry, OpEntry) else TARGETS.find_target(entry)
    assert target is not None
    rule = target.out[min(number, len(target.out) - 1)]  # a list has one rule for all results
    return aspect == "shape" and rule.shape.kind == "meta"


@pytest.mark.parametrize("part", range(PARTS))
def test_rules_equal_eager(part: int) -> None:
    for key in sorted(ENTRIES)[part::PARTS]:
        entry, is_open = ENTRIES[key], False
        if why_absent(entry) is not None:
            continue
        for sample in entry.samples:
            if sample.raises is None:
                with naming(key):
                    open_results = harness.check_inference_rule(entry.schema, sample)
                is_open |= not all(_is_left_to_torch(entry, *row) for row in open_results)
        assert is_open == (key in OPEN), f"{key}: its rule and OPEN disagree on open results"


def _cases_taken(key: str) -> frozenset[int]:
    """Return the cases of an entry that its sample calls take, at all opsets of `opsets_of`."""
    entry = ENTRIES[key]
    assert isinstance(entry, OpEntry)
    all_cases, cases = set(range(1, len(entry.case_names()) + 1)), set[int]()
    checks = [harness.SampleCheck(entry.schema, sample) for sample in entry.samples]
    for opset, target in itertools.product(opsets_of(entry), ("onnxruntime", None)):
        for check in checks:
            if cases == all_cases:
                return frozenset(cases)
            if check.sample.applies_at(opset, target):
                with contextlib.suppress(Exception):  # a refusal is a case, too
                    check.convert(opset, target)
                cases.add(check.case)
    return frozenset(cases)


@pytest.mark.parametrize("key", sorted({key for key, _ in NUMBERED.values()}))
def test_a_sample_call_takes_each_case(key: str) -> None:
    skip_absent(ENTRIES[key])
    cases = _cases_taken(key)
    names = {name: number for name, (entry_key, number) in NUMBERED.items() if entry_key == key}
    missing = {name for name, number in names.items() if number not in cases}
    assert missing - UNTAKEN == set(), f"no sample call of {key} takes these cases"
    assert (names.keys() & UNTAKEN) - missing == set(), "remove these cases from UNTAKEN"
