"""Python numbers that an exported graph computes from sizes and items equal eager at two sizes."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import onnxruntime
import pytest
import torch

import ortable
from ortable.errors import OrtableError

# x: float32[n, 3], n: the first size of x, u: an integer read from a tensor
INTEGERS: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda n, u: n + u,
    "sub": lambda n, u: n - u,
    "mul": lambda n, u: n * u,
    "neg": lambda n, u: -n,
    "abs": lambda n, u: abs(u - n),
    "floordiv": lambda n, u: n // 2 + u // 3,
    "mod": lambda n, u: n % 3 + u % 2,
    "pow": lambda n, u: n**2,
    "ceil": lambda n, u: math.ceil(n / 2),
    "ceil of a product": lambda n, u: math.ceil(n * 1.5),
    "floor": lambda n, u: math.floor(n / 3),
    "trunc": lambda n, u: math.trunc(n / 3),
    "round": lambda n, u: round(n / 3),
    "lshift": lambda n, u: n << 1,
    "rshift": lambda n, u: n >> 1,
    "and": lambda n, u: n & 3,
    "or": lambda n, u: n | 1,
    "max": lambda n, u: max(n, 5),
    "sym_max": lambda n, u: torch.sym_max(n, u),
    "sym_min": lambda n, u: torch.sym_min(n, u),
    "sym_int": lambda n, u: torch.sym_int(n * 0.7),
    "sym_sum": lambda n, u: torch.sym_sum([n, u, 3]),
    "sym_ite": lambda n, u: torch.sym_ite(n > 5, n, 2 * n),
    "sym_ite of an item": lambda n, u: torch.sym_ite(u > 3, n, u),
}
FLOATS: dict[str, Callable[[Any, Any], Any]] = {
    "truediv": lambda n, u: n / 2 + u / 3,
    "pow": lambda n, u: n**-0.5,
    "mul": lambda n, u: n * 0.5 - 1.5,
    "sym_float": lambda n, u: torch.sym_float(n) / 4,
    "max": lambda n, u: torch.sym_max(n / 3, 1.5),
}
CONDITIONS: dict[str, Callable[[Any, Any], Any]] = {
    "item": lambda n, u: u > 3,
    "float": lambda n, u: u / 2 > 1.75,
    "not": lambda n, u: torch.sym_not(u > 3),
    "and": lambda n, u: (u > 1) & (u < 5),
    "or": lambda n, u: (u < 1) | (u == 6),
}
CALLS = [(torch.arange(12.0).reshape(4, 3) / 5, torch.tensor(3)),
         (torch.arange(21.0).reshape(7, 3) / 5, torch.tensor(6))]  # fmt: skip


class FunctionOfNumbers(torch.nn.Module):
    def __init__(self, function: Callable[[torch.Tensor, Any, Any], Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor, t: torch.Tensor) -> Any:
        u = t.item()
        torch._check(u >= 2)
        torch._check(u < 50)
        return self.function(x, x.shape[0], u)


def check(function: Callable[[torch.Tensor, Any, Any], Any]) -> None:
    module = FunctionOfNumbers(function)
    dynamic = ({0: torch.export.Dim("n", min=2, max=100)}, None)
    program = torch.export.export(module, CALLS[0], dynamic_shapes=dynamic)
    model = ortable.to_onnx(program)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    for call in CALLS:
        tensors = dict(zip(("x", "t"), call, strict=True))
        feeds = {value.name: tensors[value.name].numpy() for value in session.get_inputs()}
        expected = torch.utils._pytree.tree_leaves(module(*call))
        for leaf, array in zip(expected, session.run(None, feeds), strict=True):
            actual = torch.from_numpy(array) if array.shape else torch.tensor(array)
            if isinstance(leaf, torch.Tensor):
                torch.testing.assert_close(actual, leaf)
            else:
                assert actual.item() == pytest.approx(leaf)


@pytest.mark.parametrize("name", sorted(INTEGERS))
def test_an_integer_equals_pythons(name: str) -> None:
    function = INTEGERS[name]
    check(lambda x, n, u: (x * function(n, u), function(n, u)))


@pytest.mark.parametrize("name", sorted(FLOATS))
def test_a_float_equals_pythons(name: str) -> None:
    function = FLOATS[name]

    def forward(x: torch.Tensor, n: Any, u: Any) -> Any:
        value = function(n, u)
        # a number does not make an int tensor float64, nor a float tensor wider
        return x * value, x.long() + value, torch.full((2,), value), x.clamp(0, value), value

    check(forward)


@pytest.mark.parametrize("name", sorted(CONDITIONS))
def test_a_condition_equals_pythons(name: str) -> None:
    function = CONDITIONS[name]

    def forward(x: torch.Tensor, n: Any, u: Any) -> Any:
        result = torch.cond(function(n, u), lambda y: y + 1, lambda y: y - 1, (x,))
        return result, function(n, u)

    check(forward)


def test_items_of_float_tensors_stay_numbers() -> None:
    check(lambda x, n, u: (x * x.max().item(), x.long() + x.mean().item(), x.sum().item()))


def test_an_item_sizes_a_result() -> None:
    check(lambda x, n, u: x.sum() + torch.arange(u + n).sum() + torch.ones(u).sum())


def test_a_length_is_computed_through_floats() -> None:
    check(lambda x, n, u: torch.arange(0, n * 0.5, 0.3).sum() + torch.arange(n, -n, -1.0).sum())


def test_a_length_that_no_node_computes_is_an_error_of_ours() -> None:
    with pytest.raises(OrtableError, match="no ONNX form"):
        check(lambda x, n, u: torch.arange(0, torch.sym_sqrt(n), 0.5))


def test_a_tensor_whose_number_is_read_stays_a_tensor() -> None:
    """A float64 tensor is an output, and its item counts as a Python float."""

    class FullAndAbs(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return torch.full((1,), x.item()), x.abs()

    value = torch.tensor(-2.5, dtype=torch.float64)
    model = ortable.to_onnx(FullAndAbs(), (value,)).SerializeToString()
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    outputs = session.run(None, {session.get_inputs()[0].name: value.numpy()})
    assert [(output.dtype.name, output.tolist()) for output in outputs] == [
        ("float32", [-2.5]),
        ("float64", 2.5),
    ]
