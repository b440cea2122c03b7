"""torch.vmap in an exported forward: torch writes numbers into the graph where operators take
tensors."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from ortable import ExportOptions, to_onnx

from .helpers import assert_same

X = torch.tensor([-1.0, 0.5, 2.0])


class Mapped(torch.nn.Module):
    def __init__(self, function: Callable[..., torch.Tensor]) -> None:
        super().__init__()
        self.function = torch.vmap(function)

    def forward(self, x):
        return self.function(x)


@pytest.mark.parametrize(
    ("function", "x"),
    [
        (lambda a: a + 1, X),
        (lambda a: 2.5 * a, X.half()),
        (lambda a: 1 / a, X.double()),
        (lambda a: torch.dot(a, a) - 3, torch.ones(2, 3)),
        (lambda a: a + 2.5, torch.arange(3)),
        (lambda a: a + 1, torch.tensor([True, False])),
        (lambda a: torch.add(a, 1, alpha=2), X),
    ],
    ids=["float32", "float16", "float64", "dot", "int64", "bool", "alpha"],
)
def test_a_number_beside_numbers_of_a_batch(function, x) -> None:
    module = Mapped(function)
    assert_same(to_onnx(module, (x,)), module, (x,))


@pytest.mark.parametrize("strict", [False, True])
def test_a_free_batch_and_both_modes(strict) -> None:
    module = Mapped(lambda a: a * 2 + 1)
    options = ExportOptions(strict=strict)
    model = to_onnx(module, (X,), dynamic_shapes={"x": {0: "n"}}, export_options=options)
    for size in (3, 5, 1):
        assert_same(model, module, (torch.rand(size),))


def test_a_number_made_of_a_size() -> None:
    class Scaled(torch.nn.Module):
        def forward(self, x):
            return torch.vmap(lambda a: a * (x.shape[0] * 0.5))(x)

    model = to_onnx(Scaled(), (X,), dynamic_shapes={"x": {0: "n"}})
    for size in (3, 4):
        assert_same(model, Scaled(), (torch.rand(size),))
