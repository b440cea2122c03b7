"""Every sample call of every spec entry equals eager, at the chosen opsets, for both targets; its
rules too."""

from __future__ import annotations

import contextlib
import functools
import itertools
from pathlib import Path

import pytest

from ortable.debug.harness import entries as harness
from ortablegen.aten.model import AliasEntry, OpEntry
from ortablegen.aten.read import read_folder
from ortablegen.schemas.onnx import CEILING, FLOOR
from ortablegen.schemas.registry import import_problem, installed_torch
from ortablegen.source.diagnostics import Diagnostics

from .reached import opsets_of

ROOT = Path(__file__).parents[2]
# Cases that no sample call takes: a number that only the running model knows, a result that nobody
# reads, a quantized model around the call, an argument that torch refuses. It only shrinks.
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
        "aten::lerp.Scalar/1",
        "aten::lerp.Scalar/4",
        "aten::linear/2",
        "aten::native_batch_norm/3",
        "aten::native_dropout/3",
        "aten::one_hot/2",
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


def skip_absent(entry: OpEntry | AliasEntry) -> None:
    """Skip the test when the installed torch has no such operator, or the module that registers it
    cannot be imported."""
    if not entry.versions.has(installed_torch()):
        pytest.skip(f"only torch {entry.versions.present} has {entry.key}")
    problem = import_problem(entry.requires) if entry.requires is not None else None
    if problem is not None:
        pytest.skip(problem)


# the cases of entries that have several, by the names that errors give them
NUMBERED = {
    name: (key, number)
    for key, entry in ENTRIES.items()
    if isinstance(entry, OpEntry)
    for number, name in enumerate(entry.case_names(), 1)
}


def _combinations(config: pytest.Config) -> list[tuple[int, str | None]]:
    """Opsets and targets; the few are the ends of both, each opset for one target."""
    if config.getoption("--opsets") == "all":
        return list(itertools.product(range(FLOOR, CEILING + 1), (None, "onnxruntime")))
    return [(FLOOR, None), (CEILING, "onnxruntime")]


@pytest.mark.opsets
@pytest.mark.parametrize("key", sorted(ENTRIES))
def test_sample_calls_equal_eager(key: str, request: pytest.FixtureRequest) -> None:
    entry = ENTRIES[key]
    skip_absent(entry)
    for sample in entry.samples:
        check = harness.SampleCheck(entry.schema, sample)
        for opset, target in _combinations(request.config):
            try:
                check.run(opset, target)
            except Exception as error:
                case = check.case
                where = f"{key}{f'/{case}' if case else ''}, sample at {sample.span}"
                where += f", opset {opset}, target {target}"
                raise AssertionError(f"{where}: {type(error).__name__}: {error}") from error


@pytest.mark.parametrize("key", sorted(ENTRIES))
def test_rules_equal_eager(key: str) -> None:
    entry = ENTRIES[key]
    skip_absent(entry)
    for sample in entry.samples:
        if sample.refused is None:
            harness.check_rule(entry.schema, sample)


@functools.cache
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


@pytest.mark.parametrize("name", sorted(NUMBERED))
def test_a_sample_call_takes_each_case(name: str) -> None:
    key, number = NUMBERED[name]
    skip_absent(ENTRIES[key])
    taken = number in _cases_taken(key)
    assert taken or name in UNTAKEN, f"no sample call of {key} takes case {number}"
    assert not (taken and name in UNTAKEN), f"{name} is taken now: take it out of UNTAKEN"
