"""Faults found by `make fuzz`: the result equals eager, or the call is refused."""

from __future__ import annotations

import pytest
import torch

import ortable
from ortable.errors import UnsupportedCase
from ortable.testing.entries import run_onnx
from tests.regressions.test_wrong_results import check


def test_a_write_into_a_complex_result() -> None:
    """The functional operator replaces the write, also in its form for complex tensors."""
    check(lambda x: torch.view_as_real((torch.view_as_complex(x) * 1).add_(1)), torch.randn(3, 2))


class _MixedGradient(torch.nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.ops.aten.hardtanh_backward(x, y, -1, 1)


def test_several_dtypes_that_a_converter_does_not_take_are_refused() -> None:
    args = (torch.randn(4).half(), torch.randn(4))
    with pytest.raises(UnsupportedCase, match="several dtypes, float16 and float32; cast them"):
        ortable.to_onnx(_MixedGradient(), args)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16])
def test_a_zero_that_rounding_leaves_keeps_its_sign(dtype: torch.dtype) -> None:
    """ONNX Runtime's Where returns 0.0 for a -0.0 in its first operand."""
    values = torch.tensor([-0.25, 0.25, -0.0, 0.0, -2.5, float("nan")], dtype=dtype)
    check(lambda x: (1 / x.trunc(), 1 / torch.div(x, 3, rounding_mode="trunc")), values)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("periodic", [False, True])
def test_the_ends_of_a_blackman_window_are_those_of_torch(dtype, periodic) -> None:
    """The ends are 0.0 in float64 and -3e-8 in float32."""

    def sign(x: torch.Tensor) -> torch.Tensor:
        return x + torch.blackman_window(6, periodic, dtype=dtype).sign()

    check(sign, torch.zeros(6))


class _Jagged(torch.nn.Module):
    def forward(self, dense: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
        return torch.ops.aten._padded_dense_to_jagged_forward(dense, [offsets], 5)


def test_sizes_of_two_names_that_torch_takes_for_one() -> None:
    """torch does not relate the number of rows to the number of offsets."""
    args = (torch.arange(24.0).reshape(2, 4, 3), torch.tensor([0, 2, 5]))
    auto = tuple(tuple(torch.export.Dim.AUTO for _ in arg.shape) for arg in args)
    exported = torch.export.export(_Jagged(), args, dynamic_shapes=auto)
    expected = _Jagged()(*args)
    model = ortable.to_onnx(exported)
    names = [value.name for value in model.graph.input]
    (result,) = run_onnx(model, dict(zip(names, args, strict=True)))
    assert torch.equal(result, expected)


class _Unshuffle(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.pixel_unshuffle(x, 3).reshape(-1)[:1] + x.sum()


def test_guards_that_divide_by_a_size_that_may_be_zero() -> None:
    x = torch.arange(18.0).reshape(2, 3, 3)
    exported = torch.export.export(
        _Unshuffle(), (x,), dynamic_shapes=((torch.export.Dim.AUTO,) * 3,)
    )
    model = ortable.to_onnx(exported)
    (result,) = run_onnx(model, {model.graph.input[0].name: x})
    assert torch.equal(result, _Unshuffle()(x))


def test_a_gradient_of_dynamic_size_whose_input_is_a_quotient_of_it() -> None:
    """The length of the tangent depends on an input with another stride."""

    def subtract(x: torch.Tensor) -> torch.Tensor:
        return x.view(-1)[1:].sub_(1) * 2

    gradients = []
    for function in (subtract, torch.compile(subtract, backend="ortable", dynamic=True)):
        x = torch.arange(64.0).reshape(2, 1, 2, 4, 4).requires_grad_()
        function(x * 1).sum().backward()
        gradients.append(x.grad)
    assert torch.equal(*gradients)
