"""Rewrites preserve graphs that torch does not produce and that resemble a pattern.

Each graph is rewritten, also with the rules that are off by default, and compared in values,
dtypes, shapes and signs of zeros.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from ortable import dtypes
from ortable.builder import GraphBuilder
from ortable.passes.rewrite import rule_selection
from ortable.passes.rewrite.engine import rewrite_graph
from ortable.testing.runs import (
    ModelRunner,
    check_same_declarations,
    check_same_values,
    copy_declarations,
    make_checked_model,
)
from ortable.testing.values import (
    concrete_shape,
    draw_tensor,
    is_free,
    list_sizes,
    parse_operand,
    symbolic_shape,
)

from .lessons import F16, F32, GRAPHS, ROUNDED, W, X, f


def make_graph(
    inputs: dict[str, str], make: Callable[[Any], Any], opset: int, target: str | None
) -> GraphBuilder:
    """Return the graph that `make` builds with `builder.op`; all its results are outputs."""
    builder = GraphBuilder(opset, target=target)
    for name, text in inputs.items():
        operand = parse_operand(text)
        assert operand is not None
        dtype = dtypes.from_torch(getattr(torch, operand.sample.dtype))
        builder.make_tensor_input(name, dtype, symbolic_shape(operand.sample, operand.symbols))
    results = make(builder.op)
    for name in results if isinstance(results, (tuple, list)) else [results]:
        builder.make_tensor_output(name)
    return builder


def check_rules_preserve(
    inputs: dict[str, str],
    make: Callable[[Any], Any],
    opset: int = 18,
    tolerance: float = 0.0,
    signs: bool = True,
) -> None:
    """Assert that the rules change neither declarations nor results."""
    samples = {name: parse_operand(text) for name, text in inputs.items()}
    symbols = {k: v for sample in samples.values() if sample for k, v in sample.symbols.items()}
    for names, target in (("default", None), ("all", None), ("all", "onnxruntime")):
        builder = make_graph(inputs, make, opset, target)
        original = make_checked_model(builder)
        outputs = copy_declarations(builder.outputs)
        rewrite_graph(builder, rule_selection.select_rules(names))
        builder.remove_unused()
        check_same_declarations(outputs, copy_declarations(builder.outputs))
        run_before, run_after = ModelRunner(original), ModelRunner(make_checked_model(builder))
        generator = torch.Generator().manual_seed(0)
        for sizes in list_sizes(symbols):
            for special in (False, True, True):
                feeds = {
                    name: draw_tensor(
                        operand.sample,
                        concrete_shape(operand.sample, sizes),
                        generator,
                        special and is_free(operand.sample),
                    )
                    for name, operand in samples.items()
                    if operand is not None
                }
                context = f", rules {names}, target {target}, {sizes or 'static'}"
                check_same_values(run_before(feeds), run_after(feeds), tolerance, signs, context)


def list_operators(
    inputs: dict[str, str], make: Callable[[Any], Any], names: str = "all"
) -> list[str]:
    builder = make_graph(inputs, make, 18, None)
    rewrite_graph(builder, rule_selection.select_rules(names))
    builder.remove_unused()
    return [node.op_type for node in builder.nodes]


@pytest.mark.parametrize("name", list(GRAPHS))
def test_results_are_exactly_what_they_were(name: str) -> None:
    inputs, make = GRAPHS[name]
    for opset in (18, 26):
        # ONNX Runtime's Where loses the sign of a zero; the replacement by its input keeps it
        check_rules_preserve(inputs, make, opset, signs=name != "choices")


@pytest.mark.parametrize("name", list(ROUNDED))
def test_results_are_what_they_were_but_for_rounding(name: str) -> None:
    inputs, make = ROUNDED[name]
    for opset in (18, 26):
        check_rules_preserve(inputs, make, opset, tolerance=2e-6, signs=False)


def test_normalisation_in_training_uses_the_batch() -> None:
    """Training uses the mean and variance of the batch instead of the stored statistics."""

    def make(op: Any) -> Any:
        parameters = [np.arange(1, 5, dtype=np.float32)] * 4
        conv = op.Conv("x", W)
        return op.BatchNormalization(conv, *parameters, training_mode=1, outputs=3)

    check_rules_preserve({"x": "f32[1,2,4,4]"}, make, tolerance=1e-5, signs=False)


def test_two_roundings_are_not_one() -> None:
    """float64 to float32 to float16 rounds twice, so the inner Cast stays."""
    value = np.array([1 + 2.0**-11 + 2.0**-40, 1 + 3 * 2.0**-11 - 2.0**-40])
    assert (value.astype(np.float32).astype(np.float16) != value.astype(np.float16)).any()

    def make(op: Any) -> Any:
        return op.Cast(op.Cast("x", to=F32), to=F16)

    assert list_operators({"x": "f64[3]"}, make) == ["Cast", "Cast"]


@pytest.mark.parametrize("ratio", [None, 0.5])
def test_dropout(ratio: float | None) -> None:
    """Inference copies the input and returns a mask of True; training is random and stays."""

    def make_inference(op: Any) -> Any:
        ratio_inputs = [] if ratio is None else [f(ratio)]
        return [*op.Dropout("x", *ratio_inputs, outputs=2), op.Dropout("x", *ratio_inputs)]

    check_rules_preserve(X, make_inference)

    def make_training(op: Any) -> Any:
        return op.Dropout("x", f(0.5), np.array(True))

    assert list_operators(X, make_training) == ["Dropout"]


def test_random_numbers_are_not_merged_or_moved() -> None:
    def make(op: Any) -> Any:
        return [
            op.Add(op.RandomNormalLike("x"), op.RandomNormalLike("x")),
            op.RandomUniformLike("x"),
        ]

    op_types = list_operators(X, make)
    assert sorted(op_types) == ["Add", "RandomNormalLike", "RandomNormalLike", "RandomUniformLike"]


def test_a_branch_that_is_never_taken_keeps_the_names() -> None:
    """A constant If may be removed, but the name of its output stays."""
    builder = GraphBuilder(18)
    builder.make_tensor_input("x", F32, (3,))
    then_branch, else_branch = builder.subgraph("then"), builder.subgraph("else")
    then_branch.make_tensor_output(then_branch.op.Neg(then_branch.op.Neg("x")))
    else_branch.make_tensor_output(else_branch.op.Abs("x"))
    builder.op.If(np.array(True), then_branch=then_branch, else_branch=else_branch, outputs=["y"])
    builder.set_type("y", F32)
    builder.set_shape("y", (3,))
    builder.make_tensor_output("y")
    rewrite_graph(builder, rule_selection.select_rules("all"))
    model = make_checked_model(builder)
    assert [output.name for output in model.graph.output] == ["y"]
    x = torch.tensor([-1.0, 0.0, 2.0])
    assert torch.equal(ModelRunner(model)({"x": x})[0], x)
