"""The proofs themselves: toy floats are IEEE's, definitions are what ONNX Runtime computes, what is
wrong is found; and the record is of the rules as they are."""

from __future__ import annotations

import random

import ml_dtypes
import numpy as np
import pytest
import torch

from ortable import dtypes
from ortable.builder import GraphBuilder
from ortable.debug.harness import trial as harness
from ortable.debug.harness.runs import ModelRunner, make_checked_model
from ortable.passes.rewrite.helpers import attention, convolution
from tests.passes.rewrite.harness import all_rewrites
from tests.rotation import turn

from .compare import Comparer, Level
from .floats import Format, rounded, values_of
from .graphs import read, run
from .operators import Unsupported
from .page import PAGE, page
from .proofs import digests, prove, recorded
from .terms import NotConstant, Table, evaluate

RULES = {each.name: each for each in all_rewrites()}
CHOSEN = random.Random(turn()).sample(sorted(RULES), 24)


def test_toy_float_is_ieee() -> None:
    """Values and rounding are those of the 8 bit float with 4 and 3 bits that has infinities."""
    form = Format("float", 4, 3)
    wanted = np.arange(256, dtype=np.uint8).view(ml_dtypes.float8_e4m3).astype(np.float64)
    ours = values_of(form)
    assert set(ours[~np.isnan(ours)]) == set(wanted[~np.isnan(wanted)])
    assert len(ours) == len(wanted) - 13  # NaN once instead of 14 times
    drawn = np.random.default_rng(turn()).standard_normal(20000) * np.exp2(
        np.random.default_rng(turn()).integers(-12, 10, 20000)
    )
    # as float32: ml_dtypes rounds to float32 first, so a number beside a middle would round twice
    drawn = drawn.astype(np.float32).astype(np.float64)
    given = np.concatenate([drawn, ours, [0.0, -0.0, 1e9, -1e9, 2.0**-10, 3 * 2.0**-10]])
    theirs = given.astype(ml_dtypes.float8_e4m3).astype(np.float64)
    np.testing.assert_array_equal(rounded(given, form), theirs)
    assert (np.signbit(rounded(given, form)) == np.signbit(theirs))[~np.isnan(theirs)].all()


@pytest.mark.parametrize(
    ("op", "number", "level"),
    [("Add", 0.0, Level.ZERO), ("Sub", 0.0, Level.VALUES), ("Mul", 1.0, Level.VALUES),
     ("Mul", 1.125, Level.WRONG), ("Div", 1.0, Level.VALUES), ("Max", -240.0, Level.SPECIAL)],
)  # fmt: skip
def test_what_is_not_the_same_is_found(op: str, number: float, level: Level) -> None:
    """x and an operation on it that changes no number, or one that few would draw."""
    table = Table()
    x = table.variable("x", 0, dtypes.float32)
    made = table.make(op, [x, table.constant(number, dtypes.float32)], dtypes.float32)
    assert Comparer(table).pair(x, made) == level


def test_sums_in_another_order_differ_by_rounding() -> None:
    table = Table()
    x, y, z = (table.variable("x", place, dtypes.float32) for place in range(3))
    left = table.make("Add", [table.make("Add", [x, y], 1), z], 1)
    right = table.make("Add", [x, table.make("Add", [y, z], 1)], 1)
    assert Comparer(table).pair(left, right) == Level.ROUNDING
    assert Comparer(table).pair(left, table.make("Add", [z, table.make("Add", [y, x], 1)], 1)) == 0


@pytest.mark.parametrize("name", CHOSEN)
def test_definitions_are_what_is_computed(name: str) -> None:
    """The terms of a case, in float64, next to ONNX Runtime on the same numbers."""
    rewrite = RULES[name]
    case = next(each for each in rewrite.cases if each.unchanged is None)
    opset, target = list(harness.list_targets(rewrite, case))[-1]
    trial = harness.RewriteTrial(rewrite, case, opset, target)
    feeds = trial.feeds(trial.built.symbols, torch.Generator().manual_seed(0), False)
    table = Table()
    try:
        found = run(table, read(trial.builder), trial.built.symbols)
    except (NotConstant, Unsupported):
        return  # a kernel without a definition: the rule is tested, not proven
    given = {
        table.variable(key, place, trial.builder.values[key].dtype): np.array([value])
        for key, tensor in feeds.items()
        for place, value in enumerate(tensor.reshape(-1).tolist())
    }
    wanted = ModelRunner(make_checked_model(trial.builder))(feeds)
    for ours, theirs in zip(found, wanted, strict=True):
        assert ours.shape == tuple(theirs.shape)
        flat = ours.ids.reshape(-1).tolist()
        values, _ = evaluate(table, flat, given, 1, None)
        close = np.array([float(each[0]) for each in values])
        bound = 1e-2 if theirs.dtype in (torch.float16, torch.bfloat16) else 2e-5
        np.testing.assert_allclose(
            theirs.double().reshape(-1).numpy(), close, rtol=bound, atol=bound
        )


@pytest.mark.parametrize("name", CHOSEN[:5])
def test_rules_are_as_good_as_recorded(name: str) -> None:
    """Other graphs of the same rules: none is worse than what the record says."""
    proof = prove(RULES[name], seed=turn(), most=30)
    known = recorded()[name]["verdict"]
    if known != "NONE":
        told = f"{proof.worst.example}\n{proof.where}"
        assert proof.worst.level <= Level[known], told


def test_the_record_is_of_the_rules_as_they_are() -> None:
    """A rule that says something else is proven again: python -m tests.rewrites.proofs --changed"""
    known = {name: each["rule"] for name, each in recorded().items()}
    assert known == digests()
    assert not [name for name, each in recorded().items() if each["verdict"] == "WRONG"]


def test_the_page_has_the_table() -> None:
    """Written by python -m tests.rewrites.page."""
    assert PAGE.read_text() == page()


def test_nothing_is_divided_by_no_heads() -> None:
    """It stopped a conversion."""
    builder = GraphBuilder(23)
    keys = builder.make_tensor_input("k", dtypes.float32, (0, 0, 5, 8))
    repeated = builder.make_tensor_input("r", dtypes.float32, (0, 4, 5, 8))
    assert not attention.repeats_heads(builder, keys, repeated)


def test_a_border_of_minus_zero_is_no_padding_of_a_pool() -> None:
    """Its mean would have another sign."""
    builder = GraphBuilder(18)
    x = builder.make_tensor_input("x", dtypes.float32, (1, 1, 3))
    pads = builder.make_initializer("pads", np.array([0, 0, 1, 0, 0, 1]))
    plus = builder.make_initializer("plus", np.array(0.0, dtype=np.float32))
    minus = builder.make_initializer("minus", np.array(-0.0, dtype=np.float32))
    assert convolution.summed_pads(builder, x, pads, plus, None, None) == [1, 1]
    assert not convolution.summed_pads(builder, x, pads, minus, None, None)
