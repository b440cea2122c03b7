"""Proofs: toy floats follow IEEE, definitions match ONNX Runtime, records are current."""

from __future__ import annotations

import random

import ml_dtypes
import numpy as np
import pytest
import torch

from ortable import dtypes
from ortable.builder import GraphBuilder
from ortable.passes.rewrite.helpers import attention, convolution
from ortable.testing import trial as harness
from ortable.testing.runs import ModelRunner, make_checked_model
from tests.passes.rewrite.harness import all_rewrites
from tests.rotation import rotation_seed

from .compare import Comparer, Level
from .floats import Format, all_values, round_to_format
from .graphs import compute_terms, read_graph
from .operators import Unsupported
from .page import PAGE, make_page
from .proofs import digests, load_proofs, prove
from .terms import NotConstant, Table, evaluate

RULES = {rewrite.name: rewrite for rewrite in all_rewrites()}
SAMPLED_RULES = random.Random(rotation_seed()).sample(sorted(RULES), 24)


def test_toy_float_is_ieee() -> None:
    """Values and rounding equal those of float8_e4m3, which has infinities."""
    form = Format("float", 4, 3)
    expected_values = np.arange(256, dtype=np.uint8).view(ml_dtypes.float8_e4m3).astype(np.float64)
    values = all_values(form)
    assert set(values[~np.isnan(values)]) == set(expected_values[~np.isnan(expected_values)])
    assert len(values) == len(expected_values) - 13  # one NaN instead of 14
    samples = np.random.default_rng(rotation_seed()).standard_normal(20000) * np.exp2(
        np.random.default_rng(rotation_seed()).integers(-12, 10, 20000)
    )
    # in float32: ml_dtypes rounds to float32 first, so values close to a tie would round twice
    samples = samples.astype(np.float32).astype(np.float64)
    inputs = np.concatenate([samples, values, [0.0, -0.0, 1e9, -1e9, 2.0**-10, 3 * 2.0**-10]])
    expected = inputs.astype(ml_dtypes.float8_e4m3).astype(np.float64)
    np.testing.assert_array_equal(round_to_format(inputs, form), expected)
    assert (np.signbit(round_to_format(inputs, form)) == np.signbit(expected))[
        ~np.isnan(expected)
    ].all()


@pytest.mark.parametrize(
    ("op", "number", "level"),
    [("Add", 0.0, Level.ZERO), ("Sub", 0.0, Level.VALUES), ("Mul", 1.0, Level.VALUES),
     ("Mul", 1.125, Level.WRONG), ("Div", 1.0, Level.VALUES), ("Max", -240.0, Level.SPECIAL)],
)  # fmt: skip
def test_what_is_not_the_same_is_found(op: str, number: float, level: Level) -> None:
    """Compare x with an operation that changes no value, or only rare ones."""
    table = Table()
    x = table.variable("x", 0, dtypes.float32)
    result = table.make(op, [x, table.constant(number, dtypes.float32)], dtypes.float32)
    assert Comparer(table).compare_pair(x, result) == level


def test_sums_in_another_order_differ_by_rounding() -> None:
    table = Table()
    x, y, z = (table.variable("x", index, dtypes.float32) for index in range(3))
    left = table.make("Add", [table.make("Add", [x, y], 1), z], 1)
    right = table.make("Add", [x, table.make("Add", [y, z], 1)], 1)
    assert Comparer(table).compare_pair(left, right) == Level.ROUNDING
    assert (
        Comparer(table).compare_pair(left, table.make("Add", [z, table.make("Add", [y, x], 1)], 1))
        == 0
    )


@pytest.mark.parametrize("name", SAMPLED_RULES)
def test_definitions_are_what_is_computed(name: str) -> None:
    """Terms in float64 agree with ONNX Runtime on the inputs of a sample."""
    rewrite = RULES[name]
    sample = next(c for c in rewrite.samples if c.unchanged is None)
    opset, target = list(harness.list_targets(rewrite, sample))[-1]
    trial = harness.RewriteTrial(rewrite, sample, opset, target)
    feeds = trial.feeds(trial.built.symbols, torch.Generator().manual_seed(0), False)
    table = Table()
    try:
        results = compute_terms(table, read_graph(trial.builder), trial.built.symbols)
    except (NotConstant, Unsupported):
        return  # without definitions of its kernels a rule is only tested
    variable_values = {
        table.variable(key, index, trial.builder.values[key].dtype): np.array([value])
        for key, tensor in feeds.items()
        for index, value in enumerate(tensor.reshape(-1).tolist())
    }
    expected = ModelRunner(make_checked_model(trial.builder))(feeds)
    for result, expected_result in zip(results, expected, strict=True):
        assert result.shape == tuple(expected_result.shape)
        term_ids = result.ids.reshape(-1).tolist()
        values, _ = evaluate(table, term_ids, variable_values, 1, None)
        computed = np.array([float(value_array[0]) for value_array in values])
        bound = 1e-2 if expected_result.dtype in (torch.float16, torch.bfloat16) else 2e-5
        np.testing.assert_allclose(
            expected_result.double().reshape(-1).numpy(), computed, rtol=bound, atol=bound
        )


@pytest.mark.parametrize("name", SAMPLED_RULES[:5])
def test_rules_are_as_good_as_recorded(name: str) -> None:
    """New graphs of a rule give no worse level than its record."""
    proof = prove(RULES[name], seed=rotation_seed(), most=30)
    recorded_level = load_proofs()[name]["verdict"]
    if recorded_level != "NONE":
        message = f"{proof.worst.example}\n{proof.where}"
        assert proof.worst.level <= Level[recorded_level], message


def test_the_record_is_of_the_rules_as_they_are() -> None:
    """Changed rules need new proofs: python -m tests.rewrites.proofs --changed."""
    recorded_digests = {name: record["rule"] for name, record in load_proofs().items()}
    assert recorded_digests == digests()
    assert not [name for name, record in load_proofs().items() if record["verdict"] == "WRONG"]


def test_the_page_has_the_table() -> None:
    """`python -m tests.rewrites.page` updates the page."""
    assert PAGE.read_text() == make_page()


def test_nothing_is_divided_by_no_heads() -> None:
    """Key tensors with zero heads once raised a ZeroDivisionError during conversion."""
    builder = GraphBuilder(23)
    keys = builder.make_tensor_input("k", dtypes.float32, (0, 0, 5, 8))
    repeated = builder.make_tensor_input("r", dtypes.float32, (0, 4, 5, 8))
    assert not attention.repeats_heads(builder, keys, repeated)


def test_a_border_of_minus_zero_is_no_padding_of_a_pool() -> None:
    """With padding of -0.0, the mean would have another sign."""
    builder = GraphBuilder(18)
    x = builder.make_tensor_input("x", dtypes.float32, (1, 1, 3))
    pads = builder.make_initializer("pads", np.array([0, 0, 1, 0, 0, 1]))
    plus = builder.make_initializer("plus", np.array(0.0, dtype=np.float32))
    minus = builder.make_initializer("minus", np.array(-0.0, dtype=np.float32))
    assert convolution.summed_pads(builder, x, pads, plus, None, None) == [1, 1]
    assert not convolution.summed_pads(builder, x, pads, minus, None, None)
