"""The comparison of the conformance run finds wrong elements and accepts inexact eager results."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx

import ortable
from tests.conformance import check
from tests.conformance.compare import Mismatch, compare
from tests.conformance.drawn import drawn_results
from tests.conformance.gradients import check_gradients
from tests.conformance.samples import Call
from tests.conformance.sizes import resize
from tests.modules import FunctionOfX

aten = torch.ops.aten


def _call(function: Any, *args: Any, op: str = "f", **kwargs: Any) -> Call:
    return Call(op, "f32", 0, function, args, kwargs)


def test_a_wrong_answer_is_a_mismatch() -> None:
    call = _call(lambda x: x + 1, torch.ones(2))
    expected = [torch.full((2,), 2.0)]
    compare(call, expected, [torch.full((2,), 2.0)])
    for wrong in (
        torch.full((2,), 2.1),
        torch.full((2,), 2.0, dtype=torch.float64),
        torch.full((2, 1), 2.0),
        torch.tensor([2.0, float("nan")]),
    ):
        with pytest.raises(Mismatch):
            compare(call, expected, [wrong])
    with pytest.raises(Mismatch, match="0 outputs"):
        compare(call, expected, [])


# -- element by element ---------------------------------------------------------------------------


def test_a_difference_that_float64_puts_on_eager_is_none() -> None:
    """Eager cancels 1e8 + 1 - 1e8 in float32; the exact answer is accepted, others are not."""
    call = _call(lambda x: x + 1e8 - 1e8, torch.ones(1))
    expected = [torch.ones(1) + 1e8 - 1e8]
    assert expected[0].item() != 1.0
    compare(call, expected, [torch.ones(1)])
    with pytest.raises(Mismatch):
        compare(call, expected, [torch.full((1,), 9.0)])


def test_an_inexact_element_excuses_no_other() -> None:
    """Eager is inexact only at the first element, where an error of a hundredth is accepted."""
    offsets = torch.tensor([1e8, 0.0])
    call = _call(lambda x, y: x + y - y, torch.ones(2), offsets)
    expected = [torch.ones(2) + offsets - offsets]
    assert expected[0][0].item() != 1.0
    compare(call, expected, [torch.tensor([1.0, 1.0])])
    with pytest.raises(Mismatch, match="1 of 2"):
        compare(call, expected, [torch.tensor([1.0, 1.01])])


def test_another_order_of_summation_is_as_exact() -> None:
    """Long sums that cancel stay within the bound backwards, in blocks and in halves.

    A sum that leaves out one element of average size does not.
    """
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(64, 3000, generator=generator)
    x = torch.cat([x, 1e-3 - x.flip(1)], 1)
    call = _call(lambda x: x.sum(1), x)
    expected = [x.sum(1)]
    for result in (x.flip(1).sum(1), x.view(64, 60, 100).sum(1).sum(1), x.cumsum(1)[:, -1]):
        compare(call, expected, [result])
    with pytest.raises(Mismatch, match="1 of 64"):
        compare(call, expected, [torch.cat([expected[0][:-1], x[-1:, 1:].sum(1)])])


@pytest.mark.parametrize("wrong", [float("nan"), float("-inf"), -1.0])
def test_what_overflows_in_eager_alone_is_the_true_value_or_eagers(wrong: float) -> None:
    x = torch.full((2,), 300.0, dtype=torch.float16)
    call = _call(lambda x: (x * x) / 300, x)
    expected = [(x * x) / 300]
    assert bool(torch.isinf(expected[0]).all())
    compare(call, expected, [torch.full((2,), 300.0, dtype=torch.float16)])
    compare(call, expected, [torch.tensor([300.0, float("inf")], dtype=torch.float16)])
    with pytest.raises(Mismatch):
        compare(call, expected, [torch.tensor([300.0, wrong], dtype=torch.float16)])


def test_a_wrong_element_of_a_gradient_is_a_mismatch() -> None:
    """Only the first gradient of eager is inexact; a hundredth at the second is a mismatch."""
    offsets = torch.tensor([1e8, 0.0])

    class Info:
        name, variant_test_name, inplace_variant = "f", "", None

        @staticmethod
        def op(x: torch.Tensor) -> torch.Tensor:
            return x + offsets - offsets

    class Sample:
        input, args, kwargs = torch.ones(2), (), {}
        output_process_fn_grad = staticmethod(lambda value: value)

    def backend(error: torch.Tensor) -> Any:
        return lambda graph, _: lambda *inputs: [graph(*inputs)[0] + error]

    exact, inexact = torch.tensor([1.0, 0.0]), torch.tensor([1.0, 0.01])
    for error, stage in ((exact, "exact"), (inexact, "mismatch")):
        outcome = check_gradients(Info, Sample, torch.float32, backend=backend(error))
        assert outcome.stage == stage, outcome


# -- indices --------------------------------------------------------------------------------------


def test_indices_of_equal_values_are_free_and_each_comes_once() -> None:
    x = torch.tensor([1.0, 1.0, 0.0, 0.0])
    sort = _call(torch.argsort, x, op="argsort")
    expected = [torch.tensor([2, 3, 0, 1])]
    compare(sort, expected, [torch.tensor([3, 2, 1, 0])])
    for wrong in ([2, 2, 0, 0], [3, 2, 0, 0], [0, 1, 2, 3], [2, 3, 0, 4], [2, 3, 0, -3]):
        with pytest.raises(Mismatch):
            compare(sort, expected, [torch.tensor(wrong)])
    topk = _call(torch.topk, x, 2, op="topk")
    top_results = [torch.ones(2), torch.tensor([0, 1])]
    compare(topk, top_results, [torch.ones(2), torch.tensor([1, 0])])
    with pytest.raises(Mismatch):
        compare(topk, top_results, [torch.ones(2), torch.tensor([1, 1])])


def test_indices_of_nearly_equal_values_are_not_free() -> None:
    x = torch.tensor([1.0, 1.0 + 1e-6])
    with pytest.raises(Mismatch):
        compare(
            _call(torch.argsort, x, op="argsort"), [torch.tensor([0, 1])], [torch.tensor([1, 0])]
        )


def test_values_that_are_ints_are_not_taken_for_indices() -> None:
    x = torch.tensor([1, 1, 1])
    kth = _call(torch.kthvalue, x, 2, op="kthvalue")
    compare(kth, [torch.tensor(1), torch.tensor(1)], [torch.tensor(1), torch.tensor(2)])
    with pytest.raises(Mismatch):
        compare(kth, [torch.tensor(1), torch.tensor(1)], [torch.tensor(2), torch.tensor(1)])


# -- random values --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (lambda x: aten.native_dropout(x, 0.5, True)[0], "random"),
        (lambda x: aten.native_dropout(x, 0.5, False)[0], None),
        (lambda x: aten.native_dropout(x, 0.0, True)[0], None),
        (lambda x: aten.rrelu_with_noise_functional(x, x, 0.1, 0.3, True)[0], "random"),
        (lambda x: aten.rrelu_with_noise_functional(x, x, 0.1, 0.3, False)[0], None),
        (lambda x: aten.bernoulli(x), "random"),
        (lambda x: aten.bernoulli(x) + 1, "random"),
        (lambda x: aten.empty_like(x), "memory"),
        (lambda x: aten.fill_(aten.empty_like(x), 3), None),
        (lambda x: aten.uniform_(aten.empty_like(x)), "random"),
        (lambda x: aten.uniform_(aten.select(aten.clone(x), 0, 1)), "random"),
        (lambda x: aten.zeros_like(aten.bernoulli(x)), None),
        (lambda x: aten.empty([0, 3]), None),
        (lambda x: aten.resize(x, [2]), None),
        (lambda x: aten.resize(x, [9]), "memory"),
        (lambda x: x + 1, None),
    ],
)
def test_only_what_draws_is_compared_without_its_values(function: Any, reason: str | None) -> None:
    graph = make_fx(function, tracing_mode="fake")(torch.rand(4)).graph
    assert drawn_results(graph).outputs.get(0) == reason


def test_an_output_beside_a_drawn_one_keeps_its_values() -> None:
    def function(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        base = x.clone()
        base[0].uniform_()
        return torch.rand_like(x), x + 1, base, base.t() * 2, x.neg()

    program = torch.export.export(FunctionOfX(function), (torch.rand(2, 2),))
    assert set(drawn_results(program.graph).outputs) == {0, 2, 3}


def test_drawn_numbers_have_a_range() -> None:
    call = _call(lambda x: torch.rand_like(x), torch.ones(8))
    expected, draws = [torch.rand(8)], {0: "random"}
    compare(call, expected, [torch.rand(8)], draws=draws)
    for wrong in (torch.full((8,), 3.0), torch.full((8,), -2.0), torch.full((8,), float("nan"))):
        with pytest.raises(Mismatch):
            compare(call, expected, [wrong], draws=draws)
    with pytest.raises(Mismatch, match="shape"):
        compare(call, expected, [torch.zeros(3)], draws=draws)
    compare(call, expected, [torch.full((8,), 3.0)], draws={0: "memory"})


def test_dropout_gives_one_of_two_values() -> None:
    call = _call(lambda x: torch.dropout(x, 0.25, True), torch.arange(1.0, 9.0))
    expected = torch.arange(1.0, 9.0) / 0.75
    expected[3] = 0
    compare(call, [expected], [expected], draws={0: "random"})
    with pytest.raises(Mismatch, match="two values"):
        compare(call, [expected], [expected * 0.75], draws={0: "random"})


def test_numbers_that_eager_does_not_repeat_are_compared_unless_the_graph_draws() -> None:
    call = _call(lambda x: torch.rand_like(x), torch.ones(2))
    with pytest.raises(Mismatch):
        compare(call, [torch.rand(2)], [torch.zeros(2)])


# -- other sizes ----------------------------------------------------------------------------------


def _export(function: Any, *tensors: torch.Tensor) -> Any:
    shapes = (tuple(tuple(torch.export.Dim.AUTO for _ in t.shape) for t in tensors),)
    return torch.export.export(_call(function, *tensors).module(), tensors, dynamic_shapes=shapes)


def test_a_size_that_is_baked_in_is_a_mismatch(monkeypatch: pytest.MonkeyPatch) -> None:
    x = torch.rand(3, 4)
    call = _call(lambda x: x * x.shape[0], x)
    assert check.check_call(call, (18,), ("dynamic",)).outcome == "exact"
    static_program = _export(lambda x: x * 3, x)
    convert = ortable.to_onnx
    monkeypatch.setattr(
        ortable, "to_onnx", lambda program, **options: convert(static_program, **options)
    )
    record = check.check_call(call, (18,), ("dynamic",))
    assert record.outcome == "mismatch"
    assert "at other sizes" in record.detail
    assert check.check_call(call, (18,), ("static",)).outcome == "exact"


def test_a_dynamic_program_runs_at_the_smallest_and_at_a_larger_size() -> None:
    record = check.check_call(_call(lambda x: x.sum(0), torch.rand(3, 4)), (18,), ("dynamic",))
    assert (record.outcome, record.sizes, record.dynamic) == ("exact", 2, True)


def test_sizes_that_eager_or_the_guards_refuse_are_left_out() -> None:
    def function(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x.view(4, -1) @ y if x.shape[0] == 4 else x

    record = check.check_call(
        _call(function, torch.rand(4, 3), torch.rand(3, 2)), (18,), ("dynamic",)
    )
    assert record.outcome == "exact", record.detail
    assert record.sizes >= 1


def test_a_tensor_is_cut_or_repeated() -> None:
    x = torch.arange(3)
    assert resize(x, [2]).tolist() == [0, 1]  # type: ignore[union-attr]
    assert resize(x, [5]).tolist() == [0, 1, 2, 0, 1]  # type: ignore[union-attr]
    assert resize(torch.empty(0), [2]) is None
    grown = resize(torch.ones(2, 2), [3, 2])
    assert grown is not None
    assert bool((grown[:2] == 1).all())
    assert bool(((grown[2] > 0.7) & (grown[2] < 1)).all())
