"""What a rewrite must not do to nodes that torch does not make, or not so: each graph holds what
looks like a pattern and is not quite it. Rewritten with the rules, those that are off by default
too, and compared with what it was in value, dtype, shape and signs of zeros."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from ortable import dtypes
from ortable.builder import GraphBuilder
from ortable.debug.harness.runs import (
    ModelRunner,
    check_same_declarations,
    check_same_values,
    copy_declarations,
    make_checked_model,
)
from ortable.debug.harness.values import (
    concrete_shape,
    draw_tensor,
    is_free,
    list_sizes,
    parse_operand,
    symbolic_shape,
)
from ortable.passes.rewrite import rule_selection
from ortable.passes.rewrite.engine import rewrite_graph

from .lessons import F16, F32, GRAPHS, ROUNDED, W, X, f


def graph_of(
    inputs: dict[str, str], make: Callable[[Any], Any], opset: int, target: str | None
) -> GraphBuilder:
    """The graph that ``make`` builds of ``builder.op``; all its results are outputs."""
    builder = GraphBuilder(opset, target=target)
    for name, text in inputs.items():
        found = parse_operand(text)
        assert found is not None
        dtype = dtypes.from_torch(getattr(torch, found.sample.dtype))
        builder.make_tensor_input(name, dtype, symbolic_shape(found.sample, found.symbols))
    made = make(builder.op)
    for name in made if isinstance(made, (tuple, list)) else [made]:
        builder.make_tensor_output(name)
    return builder


def keeps(
    inputs: dict[str, str],
    make: Callable[[Any], Any],
    opset: int = 18,
    tolerance: float = 0.0,
    signs: bool = True,
) -> None:
    """Nothing that the graph says or computes is changed by the rules."""
    samples = {name: parse_operand(text) for name, text in inputs.items()}
    symbols = {k: v for found in samples.values() if found for k, v in found.symbols.items()}
    for names, target in (("default", None), ("all", None), ("all", "onnxruntime")):
        builder = graph_of(inputs, make, opset, target)
        before = make_checked_model(builder)
        outputs = copy_declarations(builder.outputs)
        rewrite_graph(builder, rule_selection.select_rules(names))
        builder.remove_unused()
        check_same_declarations(outputs, copy_declarations(builder.outputs))
        old, new = ModelRunner(before), ModelRunner(make_checked_model(builder))
        generator = torch.Generator().manual_seed(0)
        for sizes in list_sizes(symbols):
            for special in (False, True, True):
                feeds = {
                    name: draw_tensor(
                        found.sample,
                        concrete_shape(found.sample, sizes),
                        generator,
                        special and is_free(found.sample),
                    )
                    for name, found in samples.items()
                    if found is not None
                }
                what = f", rules {names}, target {target}, {sizes or 'static'}"
                check_same_values(old(feeds), new(feeds), tolerance, signs, what)


def operators(inputs: dict[str, str], make: Callable[[Any], Any], names: str = "all") -> list[str]:
    """Operators after the rules."""
    builder = graph_of(inputs, make, 18, None)
    rewrite_graph(builder, rule_selection.select_rules(names))
    builder.remove_unused()
    return [node.op_type for node in builder.nodes]


@pytest.mark.parametrize("name", list(GRAPHS))
def test_results_are_exactly_what_they_were(name: str) -> None:
    inputs, make = GRAPHS[name]
    for opset in (18, 26):
        # ONNX Runtime's Where loses the sign of a zero, which a result that is passed on keeps
        keeps(inputs, make, opset, signs=name != "choices")


@pytest.mark.parametrize("name", list(ROUNDED))
def test_results_are_what_they_were_but_for_rounding(name: str) -> None:
    inputs, make = ROUNDED[name]
    for opset in (18, 26):
        keeps(inputs, make, opset, tolerance=2e-6, signs=False)


def test_normalisation_in_training_uses_the_batch() -> None:
    """Its mean and variance are those of the input, not the ones that are given."""

    def make(op: Any) -> Any:
        numbers = [np.arange(1, 5, dtype=np.float32)] * 4
        conv = op.Conv("x", W)
        return op.BatchNormalization(conv, *numbers, training_mode=1, outputs=3)

    keeps({"x": "f32[1,2,4,4]"}, make, tolerance=1e-5, signs=False)


def test_two_roundings_are_not_one() -> None:
    """float64 to float32 to float16 rounds twice: the Cast in the middle stays."""
    value = np.array([1 + 2.0**-11 + 2.0**-40, 1 + 3 * 2.0**-11 - 2.0**-40])
    assert (value.astype(np.float32).astype(np.float16) != value.astype(np.float16)).any()

    def make(op: Any) -> Any:
        return op.Cast(op.Cast("x", to=F32), to=F16)

    assert operators({"x": "f64[3]"}, make) == ["Cast", "Cast"]


@pytest.mark.parametrize("ratio", [None, 0.5])
def test_dropout(ratio: float | None) -> None:
    """Without training it copies its input, and its mask is True; with training it draws."""

    def still(op: Any) -> Any:
        more = [] if ratio is None else [f(ratio)]
        return [*op.Dropout("x", *more, outputs=2), op.Dropout("x", *more)]

    keeps(X, still)

    def draws(op: Any) -> Any:
        return op.Dropout("x", f(0.5), np.array(True))

    assert operators(X, draws) == ["Dropout"]


def test_random_numbers_are_not_merged_or_moved() -> None:
    def make(op: Any) -> Any:
        return [
            op.Add(op.RandomNormalLike("x"), op.RandomNormalLike("x")),
            op.RandomUniformLike("x"),
        ]

    found = operators(X, make)
    assert sorted(found) == ["Add", "RandomNormalLike", "RandomNormalLike", "RandomUniformLike"]


def test_a_branch_that_is_never_taken_keeps_the_names() -> None:
    """An If on a constant may go, the output's name may not."""
    builder = GraphBuilder(18)
    builder.make_tensor_input("x", F32, (3,))
    first, second = builder.subgraph("then"), builder.subgraph("else")
    first.make_tensor_output(first.op.Neg(first.op.Neg("x")))
    second.make_tensor_output(second.op.Abs("x"))
    builder.op.If(np.array(True), then_branch=first, else_branch=second, outputs=["y"])
    builder.set_type("y", F32)
    builder.set_shape("y", (3,))
    builder.make_tensor_output("y")
    rewrite_graph(builder, rule_selection.select_rules("all"))
    model = make_checked_model(builder)
    assert [output.name for output in model.graph.output] == ["y"]
    x = torch.tensor([-1.0, 0.0, 2.0])
    assert torch.equal(ModelRunner(model)({"x": x})[0], x)
