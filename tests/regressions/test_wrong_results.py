"""Faults that other converters have silently: exporter and backend results equal eager."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import onnx
import pytest
import torch
from torch.utils import _pytree as pytree

import ortable
from ortable import GraphBuilder
from ortable.testing.entries import compare_tensor, run_onnx
from tests.modules import Function
from tests.suites.isolation import Outcome, run_isolated


def run_exported(
    module: torch.nn.Module, args: tuple[Any, ...], dynamic: bool, opset: int = 18
) -> list[torch.Tensor]:
    """Run the exported model in ONNX Runtime and return its outputs."""
    tensors = [arg for arg in args if isinstance(arg, torch.Tensor)]
    shapes = tuple(
        tuple(torch.export.Dim.AUTO for _ in arg.shape) if isinstance(arg, torch.Tensor) else None
        for arg in args
    )
    program = torch.export.export(module, args, dynamic_shapes=(shapes,) if dynamic else None)
    model = ortable.to_onnx(program, target_opset=opset)
    names = [value.name for value in model.graph.input]
    assert len(names) == len(tensors), "an input was removed"
    return run_onnx(model, dict(zip(names, [t.clone() for t in tensors], strict=True)))


def check(function: Callable[..., Any], *args: Any, tolerance: float | None = None) -> None:
    """Compare eager with the exported model (static and dynamic) and the compiled function."""
    module = function if isinstance(function, torch.nn.Module) else Function(function)

    def copies() -> tuple[Any, ...]:
        return pytree.tree_map_only(torch.Tensor, torch.clone, args)

    expected = pytree.tree_leaves(module(*copies()))
    for dynamic in (False, True):
        outputs = run_exported(module, copies(), dynamic)
        assert len(outputs) == len(expected)
        for actual, reference in zip(outputs, expected, strict=True):
            compare_tensor(actual, reference, tolerance)
    for dynamic in (False, True):
        torch._dynamo.reset()
        compiled = torch.compile(module, backend="ortable", fullgraph=True, dynamic=dynamic)
        results = pytree.tree_leaves(compiled(*copies()))
        for actual, reference in zip(results, expected, strict=True):
            compare_tensor(actual, reference, tolerance)
    torch._dynamo.reset()


# -- integers -----------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_the_smallest_int_by_minus_one(dtype: torch.dtype) -> None:
    smallest = torch.iinfo(dtype).min
    x, y = torch.tensor([[smallest], [5]], dtype=dtype), torch.tensor([-1, 2], dtype=dtype)
    calls = [
        partial(function, x, by) for function in (_divide_and_mod, torch.fmod) for by in (y, -1)
    ]
    compiled = [partial(_check_call, call) for call in calls]
    for outcome in run_isolated(compiled):  # torch's truncating division crashes the process
        assert outcome == Outcome(), outcome


def _divide_and_mod(x: torch.Tensor, y: Any) -> tuple[torch.Tensor, torch.Tensor]:
    return x // y, x % y


def _check_call(call: partial[Any]) -> None:
    function, (x, y) = call.func, call.args
    if isinstance(y, torch.Tensor):
        check(function, x, y)
    else:
        check(lambda x: function(x, y), x)


def test_truncating_division_of_the_smallest_int_leaves_the_process_alive() -> None:
    """Eager crashes here; the result equals the floor division."""
    smallest = torch.iinfo(torch.int64).min
    x, y = torch.tensor([smallest, 7]), torch.tensor([-1, -2])

    def divide() -> list[int]:
        torch._dynamo.reset()
        compiled = torch.compile(partial(torch.div, rounding_mode="trunc"), backend="ortable")
        return list(compiled(x, y).tolist())

    assert run_isolated([divide]) == [Outcome([smallest, -3])]


def test_a_division_by_zero_raises() -> None:
    x, zeros = torch.tensor([1, 2]), torch.tensor([1, 0])
    for function in (torch.floor_divide, torch.remainder, torch.fmod):
        for call in (function, torch.compile(function, backend="ortable")):
            with pytest.raises(RuntimeError, match=r"(?i)zero"):
                call(x, zeros)


def test_extremes_of_int64_above_its_lower_half() -> None:
    x = torch.tensor([1, 2**31, 2**32 - 1, 1, -1, -(2**32), 63, 0])
    check(lambda x: (x.max(), x.amin(), x.view(2, 4).amax(0, keepdim=True)), x)
    check(lambda x: torch.nn.functional.max_pool2d(x.view(1, 2, 4), (1, 4)), x)


def test_nearest_resizing_of_an_axis_whose_size_stays() -> None:
    for factor in (1.3, 2.3, (1.3, 1.0)):
        check(
            partial(torch.nn.functional.interpolate, scale_factor=factor, mode="nearest"),
            torch.randn(2, 2, 3, 10),
        )


def test_multilabel_margin_loss_behind_the_first_minus_one() -> None:
    target = torch.tensor([[3, 0, -1, 2], [-1, 1, 2, 3], [0, 1, 2, 3]])
    for reduction in ("mean", "none"):
        loss = partial(torch.nn.functional.multilabel_margin_loss, reduction=reduction)
        x = torch.randn(3, 4)
        check(loss, x, target)
        trained = [x.clone().requires_grad_() for _ in range(2)]
        for call, leaf in zip((loss, torch.compile(loss, backend="ortable")), trained, strict=True):
            call(leaf, target).sum().backward()
        compare_tensor(trained[1].grad, trained[0].grad)


@pytest.mark.parametrize(
    "function", [lambda x: x.cumsum(0), lambda x: torch.nn.functional.threshold(x, 1.0, -0.0)]
)
def test_the_sign_of_zero(function: Callable[[torch.Tensor], torch.Tensor]) -> None:
    x = torch.tensor([-0.0, -0.0, 0.0, -1.0, 2.0])
    check(lambda x: torch.signbit(function(x)), x)


def test_integer_floor_division_and_remainder_of_negatives() -> None:
    """ONNX Div truncates, and torch floors."""
    x = torch.tensor([-7, -6, -1, 0, 1, 6, 7])
    y = torch.tensor([2, -2, 3, -3, -2, 4, -4])
    check(lambda x, y: (x // y, x % y, x // -2, x % -3, torch.fmod(x, y)), x, y)


def test_integer_tensor_times_a_float_scalar() -> None:
    """The scalar is not cast to int64, and the result is float."""
    check(lambda x: (x * 2.5, x + 0.5, 1.5 - x), torch.arange(-3, 4))


def test_slice_that_ends_at_zero() -> None:
    """The expression ``end or MAX`` would return all rows."""
    check(lambda x: (x[:0], x[0:0, 1:], x[1:0]), torch.randn(4, 3))


def test_int64_floor_division_above_2_to_the_24() -> None:
    """A computation in float32 would lose the last digits."""
    x = torch.tensor([2**24 + 1, 2**53 + 1, -(2**40) - 3, 2**62 + 7])
    check(lambda x: (x // 3, x % 3, torch.floor_divide(x, 7)), x)


def test_negative_indices_in_a_broadcast_pair() -> None:
    rows, columns = torch.tensor([[0], [-1]]), torch.tensor([-1, 0, -2])
    check(lambda x, i, j: x[i, j], torch.randn(3, 4), rows, columns)


def test_an_int_argument_whose_value_is_zero() -> None:
    """A zero is not treated as a missing argument."""
    x = torch.randn(3, 4)
    check(
        lambda x: (
            x.sum(dim=0), torch.clamp(x, min=0), x.select(0, 0), torch.roll(x, 0, 0),
            torch.diagonal(x, 0), torch.full((2,), 0), torch.add(x, x, alpha=0), x.cumsum(0),
        ),
        x,
    )  # fmt: skip


# -- views and writes ---------------------------------------------------------------------------


def test_as_strided_with_an_offset() -> None:
    check(lambda x: torch.as_strided(x.clone(), (2, 3), (3, 1), 2), torch.arange(12.0))


def test_writes_through_views_are_kept() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        y = x.clone()
        y.t().add_(1)
        y[:, 0].mul_(2)
        return y

    check(function, torch.randn(3, 3))


class _Counter(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls.add_(x.sum(0))
        return x * 2


def test_a_mutated_buffer_that_is_not_returned() -> None:
    """The export returns its new value as an output; the backend writes it back."""
    x = torch.randn(3, 2)
    model = ortable.to_onnx(_Counter(), (x,))
    assert [output.name for output in model.graph.output] == ["output_0", "calls"]
    double, calls = run_onnx(model, {model.graph.input[0].name: x})
    compare_tensor(double, x * 2)
    compare_tensor(calls, x.sum(0))
    torch._dynamo.reset()
    module, eager = _Counter(), _Counter()
    compiled = torch.compile(module, backend="ortable")
    for _ in range(2):
        compare_tensor(compiled(x), eager(x))
        compare_tensor(module.calls, eager.calls)


# -- shapes -------------------------------------------------------------------------------------


def test_argmax_over_everything_with_keepdim() -> None:
    x = torch.randn(3, 4)
    check(lambda x: (torch.argmax(x, None, True), torch.argmin(x, None, True), x.argmax()), x)


def test_cat_with_legacy_empty_tensors() -> None:
    check(lambda x, e: torch.cat([e, x, e], 1), torch.randn(2, 3), torch.empty(0))


def test_empty_tensors() -> None:
    x = torch.empty(0, 3)
    check(
        lambda x: (
            x.sum(0), x.prod(0), x @ torch.ones(3, 2), x.t().mean(1), torch.cat([x, x]),
            x.any(0), x.all(0), torch.nonzero(x), x.reshape(3, 0), x.cumsum(0),
        ),
        x,
    )  # fmt: skip


def test_even_part_of_a_symbolic_length() -> None:
    """``2*(x//2)`` differs from ``x``: a length of 7 gives 6."""

    def function(x: torch.Tensor) -> torch.Tensor:
        return x[: 2 * (x.shape[0] // 2)]

    torch._dynamo.reset()
    compiled = torch.compile(function, backend="ortable", fullgraph=True, dynamic=True)
    for length in (8, 7, 6, 9):
        x = torch.randn(length, 2)
        compare_tensor(compiled(x), function(x))
    torch._dynamo.reset()


def test_bool_mask_indexing_has_no_static_shape() -> None:
    """The number of selected rows depends on the data, also at the next call."""
    x, mask = torch.randn(4, 2), torch.tensor([True, False, True, False])
    program = torch.export.export(Function(lambda x, mask: x[mask]), (x, mask))
    model = ortable.to_onnx(program)
    declared = model.graph.output[0].type.tensor_type.shape.dim[0]
    assert not declared.HasField("dim_value")
    names = [value.name for value in model.graph.input]
    for rows in (mask, torch.tensor([False] * 4), torch.tensor([True] * 4)):
        compare_tensor(run_onnx(model, dict(zip(names, (x, rows), strict=True)))[0], x[rows])


# -- types --------------------------------------------------------------------------------------


def test_bool_arithmetic_and_sums() -> None:
    x, y = torch.tensor([True, True, False]), torch.tensor([True, False, False])
    check(lambda x, y: (x + y, x * y, x.cumsum(0), x.sum(), x + 1, x.prod(0), x * 2.0), x, y)


def test_where_promotes_float_and_int() -> None:
    c, x, y = torch.tensor([True, False]), torch.tensor([0.5, 1.5]), torch.tensor([1, 2])
    check(lambda c, x, y: (torch.where(c, x, y), torch.where(c, y, 0.5), torch.where(c, 1, y)),
          c, x, y)  # fmt: skip


def test_half_plus_a_zero_dimensional_float_stays_half() -> None:
    x, s = torch.tensor([1.0, 2049.0], dtype=torch.float16), torch.tensor(1.5)
    check(lambda x, s: (x + s, s * x, x - 2.5), x, s)


def test_addmm_with_beta_zero_does_not_read_self() -> None:
    bias = torch.full((2,), float("nan"))
    check(lambda b, x, y: torch.addmm(b, x, y, beta=0), bias, torch.randn(3, 4), torch.randn(4, 2))


def test_casts_through_bfloat16_are_not_collapsed() -> None:
    """``Cast(bf16) -> Mul -> Cast(f32)`` rounds; removing the casts would change the result."""

    def function(x: torch.Tensor) -> torch.Tensor:
        return (x.bfloat16() * x.bfloat16()).float() + x.half().float()

    x = torch.tensor([1.00390625, 3.14159274, 1e-3])
    expected = function(x)
    assert not torch.equal(expected, x * x + x)
    check(function, x, tolerance=0.0)


def test_bool_outputs_are_bool() -> None:
    """dlpack represents bools as uint8."""
    check(lambda x: (x > 0, torch.isnan(x), ~(x > 0), (x > 0).any()), torch.randn(5))


# -- names and inputs ---------------------------------------------------------------------------


class _TiedWeights(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = torch.nn.Embedding(7, 4)
        self.head = torch.nn.Linear(4, 7, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.embedding(x))


def test_tied_weights_stay_one() -> None:
    """The model has one initializer, and the gradient contains both uses."""
    x = torch.tensor([[1, 2, 6]])
    model = ortable.to_onnx(_TiedWeights(), (x,))
    sizes = [len(i.raw_data) for i in model.graph.initializer if len(i.dims) == 2]
    assert sizes.count(7 * 4 * 4) == 1
    torch._dynamo.reset()
    torch.manual_seed(0)
    eager = _TiedWeights()
    module = _TiedWeights()
    module.load_state_dict(eager.state_dict())
    assert module.head.weight is module.embedding.weight
    compiled = torch.compile(module, backend="ortable")
    for model_ in (eager, compiled):
        model_(x).square().mean().backward()
    compare_tensor(module.head.weight.grad, eager.head.weight.grad)


class _SimilarNames(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Module()
        self.layer.a = torch.nn.Parameter(torch.tensor(1.0))
        self.layer.A = torch.nn.Parameter(torch.tensor(2.0))
        self.layer_a = torch.nn.Parameter(torch.tensor(4.0))

    def forward(self, *args: torch.Tensor) -> torch.Tensor:
        (x,) = args
        return x * self.layer.a + x.square() * self.layer.A + x.pow(3) * self.layer_a


def test_parameter_names_with_dots_and_case_collisions() -> None:
    module = _SimilarNames().eval()
    check(module, torch.tensor([2.0, 3.0]))
    model = ortable.to_onnx(module, (torch.tensor([2.0, 3.0]),), optimize=False)
    values = {float(onnx.numpy_helper.to_array(i)) for i in model.graph.initializer if not i.dims}
    assert {1.0, 2.0, 4.0} <= values
    names = [initializer.name for initializer in model.graph.initializer]
    assert len(set(names)) == len(names)


def test_unused_inputs_stay_inputs() -> None:
    model = ortable.to_onnx(
        Function(lambda x, y, z: x + z), (torch.ones(2), torch.ones(3), torch.ones(2))
    )
    assert len(model.graph.input) == 3
    check(lambda x, y, z: x + z, torch.ones(2), torch.ones(3), torch.ones(2))


@pytest.mark.parametrize("opset", [18, 26])
def test_an_optimizer_keeps_casts_that_round(opset: int) -> None:
    """The passes of the builder do not treat float16 casts as identities either."""
    builder = GraphBuilder(opset)
    builder.make_tensor_input("x", 1, (3,))
    half = builder.make_node("Cast", ["x"], to=10)
    builder.make_node("Cast", [half], ["y"], to=1)
    builder.make_tensor_output("y", 1, (3,))
    builder.optimize(folding=True)
    x = torch.tensor([1.0001, 2.0003, 70000.0])
    compare_tensor(run_onnx(builder.to_onnx(), {"x": x})[0], x.half().float())


@pytest.mark.parametrize("number", range(6))
def test_a_storage_offset_is_no_size_of_the_same_name(number: int) -> None:
    """torch's symbols are called s0 to s99, as our names of sizes are."""

    def offset(*inputs: torch.Tensor) -> torch.Tensor:
        value = torch.ops.aten.sym_storage_offset.default(inputs[number])
        return torch.ops.aten.full.default([1], value)

    inputs = tuple(torch.ones(200)[3 + 20 * i :][:32].reshape(2, 2, 2, 2, 2) for i in range(6))
    auto = tuple(dict.fromkeys(range(5), torch.export.Dim.AUTO) for _ in inputs)
    program = torch.export.export(Function(offset), inputs, dynamic_shapes=(auto,))
    with pytest.raises(ortable.errors.ConversionError, match=r"No result .* has dimension"):
        ortable.to_onnx(program)
