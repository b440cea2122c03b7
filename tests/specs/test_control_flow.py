"""torch.cond becomes If, and torch.switch a chain of Ifs, with results equal to eager.

Covers captured weights, several results, dynamic dimensions and nesting.
"""

from __future__ import annotations

import importlib.util
from typing import Any

import pytest
import torch

import ortable
from tests.onnx_runs import run


def check(
    module: torch.nn.Module, calls: list[tuple[torch.Tensor, ...]], **options: Any
) -> list[str]:
    """Export with the first call, compare every call with eager, and return the operator types."""
    module.eval()
    converted = ortable.to_onnx(module, calls[0], **options)
    model = getattr(converted, "model_proto", converted)
    for call in calls:
        expected = torch.utils._pytree.tree_leaves(module(*call))
        torch.testing.assert_close(run(model, *call), [tensor.detach() for tensor in expected])
    return [node.op_type for node in model.graph.node]


POSITIVE, NEGATIVE = torch.full((3, 4), 1.5), torch.full((3, 4), -1.5)


class TwoBranches(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.sum() > 0, lambda x: x.sin() + 1, lambda x: x.cos() * 2, (x,))


class CapturedWeights(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)
        self.scale = torch.nn.Parameter(torch.tensor([1.0, 2.0, 3.0, 4.0]))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        def left(x: torch.Tensor) -> torch.Tensor:
            return self.linear(x)

        def right(x: torch.Tensor) -> torch.Tensor:
            return x * self.scale

        return torch.cond(x.sum() > 0, left, right, (x,)) + 1


class TwoResults(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.cond(x.sum() > 0, lambda x: (x + 1, x * 2), lambda x: (x - 1, x * 3), (x,))


class OneResultUnused(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        results = torch.cond(x.sum() > 0, lambda x: (x + 1, x * 2), lambda x: (x - 1, x * 3), (x,))
        return results[1]


class Nested(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        def inner(x: torch.Tensor) -> torch.Tensor:
            return torch.cond(x.max() > 1, lambda x: x + 10, lambda x: x + 20, (x,))

        return torch.cond(x.sum() > 0, inner, lambda x: x - 30, (x,))


class InputPredicate(torch.nn.Module):
    def forward(self, p: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        return torch.cond(p, lambda x: x + 1, lambda x: x - 1, (x,))


class CloneBranch(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.sum() > 0, lambda x: x.clone(), lambda x: x - 1, (x,))


class DoubledRows(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        def left(x: torch.Tensor) -> torch.Tensor:
            return x.reshape(x.shape[0] * 2, 2) + x.shape[0]

        return torch.cond(x.sum() > 0, left, lambda x: x.reshape(x.shape[0] * 2, 2) * 2, (x,))


class SizePredicate(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.shape[0] > 4, lambda x: x + 1, lambda x: x - 1, (x,))


@pytest.mark.parametrize(
    "kind", [TwoBranches, CapturedWeights, TwoResults, OneResultUnused, CloneBranch]
)
def test_either_branch_equals_eager(kind: type[torch.nn.Module]) -> None:
    assert "If" in check(kind(), [(POSITIVE,), (NEGATIVE,)])


def test_both_levels_of_nested_branches_equal_eager() -> None:
    check(Nested(), [(POSITIVE,), (NEGATIVE,), (torch.full((3, 4), 0.5),)])


@pytest.mark.parametrize("shape", [(), (1,)])
def test_the_predicate_may_be_an_input_of_one_element(shape: tuple[int, ...]) -> None:
    calls = [(torch.full(shape, value), torch.ones(3)) for value in (True, False)]
    check(InputPredicate(), calls)


@pytest.mark.parametrize("kind", [TwoBranches, CapturedWeights, Nested, DoubledRows, SizePredicate])
def test_dynamic_dimensions_reach_the_branches(kind: type[torch.nn.Module]) -> None:
    calls = [(POSITIVE,), (NEGATIVE,), (torch.ones(7, 4),), (-torch.ones(7, 4),)]
    batch = torch.export.Dim("batch", min=2, max=100)
    check(kind(), calls, dynamic_shapes=({0: batch},))


class SwitchModule(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)

    def forward(self, index: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        def double(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return x * 2, x.sum()

        def apply_linear(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return self.linear(x), x.amax()

        def square(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return x * x, x.mean()

        operators = importlib.import_module("torch._higher_order_ops.switch")
        return operators.switch(index, (double, apply_linear, square), (x,))


HAS_SWITCH = importlib.util.find_spec("torch._higher_order_ops.switch") is not None


@pytest.mark.skipif(not HAS_SWITCH, reason="torch.switch came with torch 2.15")
@pytest.mark.parametrize("shape", [(), (1,)])
def test_a_switch_is_a_chain_of_ifs(shape: tuple[int, ...]) -> None:
    # an index beyond the branches is clamped
    calls = [(torch.full(shape, index), torch.randn(3, 4)) for index in (0, 1, 2, 9, -3)]
    assert check(SwitchModule(), calls).count("If") == 1
