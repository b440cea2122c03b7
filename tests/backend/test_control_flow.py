"""Branches and loops in torch.compile(backend="ortable"): forward and backward equal eager, also
where a branch or a body writes into a tensor from outside."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch._higher_order_ops import scan, while_loop
from torch._higher_order_ops.map import map as torch_map
from torch.nn.attention.flex_attention import flex_attention
from torch.utils import _pytree as pytree

pytestmark = pytest.mark.usefixtures("fresh_dynamo")

X = torch.arange(12.0).reshape(4, 3) / 7 - 0.5
Y = torch.arange(21.0).reshape(7, 3) / 9 - 1
CALLS = [X, -X, Y, -Y]
Function = Callable[[torch.Tensor], Any]


def tensors(results: Any) -> list[torch.Tensor]:
    """Flat results; numbers become tensors."""
    return [torch.as_tensor(leaf) for leaf in pytree.tree_leaves(results) if leaf is not None]


def check(module: Any, calls: list[torch.Tensor] = CALLS, backward: bool = False) -> None:
    """Compiled and eager copies of a module (or function) agree on each call, on what they write
    into their buffers, and on gradients of inputs and weights when ``backward``."""
    eager, other = copy.deepcopy(module), copy.deepcopy(module)
    compiled = torch.compile(other, backend="ortable", fullgraph=True)
    with torch.set_grad_enabled(backward):
        for x in calls:
            given = [x.clone().requires_grad_(backward) for _ in range(2)]
            expected, found = tensors(eager(given[0])), tensors(compiled(given[1]))
            assert len(found) == len(expected)
            for left, right in zip(found, expected, strict=True):
                torch.testing.assert_close(left, right)
            if backward:
                for results in (expected, found):
                    sum((y.float() ** 2).sum() for y in results if y.requires_grad).backward()
                torch.testing.assert_close(given[1].grad, given[0].grad)
    if isinstance(module, torch.nn.Module):
        torch.testing.assert_close(other.state_dict(), eager.state_dict())
        for left, right in zip(other.parameters(), eager.parameters(), strict=True):
            if backward:
                torch.testing.assert_close(left.grad, right.grad)


# Differentiable in torch


def branches(x: torch.Tensor) -> Any:
    return torch.cond(
        x.sum() > 0, lambda x: (x.sin() + 1, x.clone()), lambda x: (x.cos() * 2, x * 3), (x * 1,)
    )


def nested_branches(x: torch.Tensor) -> Any:
    def inside(x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.max() > 1, lambda x: x * x.shape[0], lambda x: x.exp(), (x,))

    return torch.cond(x.sum() > 0, inside, lambda x: x - 30, (x,))


def a_condition_on_sizes(x: torch.Tensor) -> Any:
    return torch.cond(x.shape[0] > 5, lambda x: x.sin(), lambda x: x.cos(), (x,))


def a_running_sum(x: torch.Tensor) -> Any:
    return scan(lambda c, row: (c * 0.5 + row, (c * row).sin()), torch.zeros(3), x, dim=0)


def a_sum_backwards(x: torch.Tensor) -> Any:
    return scan(lambda c, v: (c + v, c * v), x.sum(1), x, dim=1, reverse=True)


def a_map(x: torch.Tensor) -> Any:
    return torch_map(lambda row, w: (row.sin() * w, row.sum()), x, x.sum())


def a_loop(x: torch.Tensor) -> Any:
    return while_loop(
        lambda n, y: y.abs().sum() < 50, lambda n, y: (n + 1, y * 1.7 + 0.1), (torch.tensor(0), x)
    )


def a_branch_in_a_scan(x: torch.Tensor) -> Any:
    def step(carry: torch.Tensor, row: torch.Tensor) -> Any:
        after = torch.cond(row.sum() > 0, lambda c, r: c + r, lambda c, r: c * r, (carry, row))
        return after, after.clone()

    return scan(step, torch.ones(3), x, dim=0)


class Layers(torch.nn.Module):
    """Layers as branches, one of them in a loop."""

    def __init__(self) -> None:
        super().__init__()
        self.left = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.LayerNorm(3))
        self.cell = torch.nn.GRUCell(3, 3)

    def forward(self, x: torch.Tensor) -> Any:
        def step(carry: torch.Tensor, row: torch.Tensor) -> Any:
            after = self.cell(row[None], carry)
            return after, after[0].clone()

        chosen = torch.cond(x.sum() > 0, self.left, lambda x: x.exp(), (x,))
        return scan(step, torch.zeros(1, 3), chosen, dim=0)


DIFFERENTIABLE = [
    branches, nested_branches, a_condition_on_sizes, a_running_sum, a_sum_backwards, a_map, a_loop,
    a_branch_in_a_scan, Layers(),
]  # fmt: skip


def name_of(kind: Any) -> str:
    return getattr(kind, "__name__", type(kind).__name__)


@pytest.mark.alternates(parts=4)
@pytest.mark.parametrize("kind", DIFFERENTIABLE, ids=name_of)
def test_forward_and_backward(kind: Any) -> None:
    check(kind, backward=True)


# Without gradients


def results_of_unknown_size(x: torch.Tensor) -> Any:
    found = torch.cond(x.sum() > 0, lambda x: x[1:] + 1, lambda x: torch.cat([x, x]), (x,))
    return found * 2, found.sum(1)


def integers(x: torch.Tensor) -> Any:
    count, y = while_loop(lambda n, y: n < 6, lambda n, y: (n + 1, y + n), (x.shape[0], x))
    return y, y.sum() + count


def rows_one_by_one(x: torch.Tensor) -> Any:
    return while_loop(
        lambda n, total: n < x.shape[0], lambda n, total: (n + 1, total + x[n]),
        (0, torch.zeros(3)),
    )  # fmt: skip


def constants_sizes_and_items(x: torch.Tensor) -> Any:
    def going(a: Any, b: Any, c: Any, n: Any, y: torch.Tensor) -> Any:
        return c < a * b

    def step(a: Any, b: Any, c: Any, n: Any, y: torch.Tensor) -> Any:
        return b, a, c * 2 + 1, n + 1, y + 1

    carry = (x.shape[0], x.shape[1], 1, x.sum().to(torch.int64).item(), x.sin())
    return [each + 1 for each in while_loop(going, step, carry)]


def written_operand(x: torch.Tensor) -> Any:
    table = x.clone()

    def inside(table: torch.Tensor) -> torch.Tensor:
        table.add_(1)
        return table.clone()

    return torch.cond(x.sum() > 0, inside, lambda table: table - 1, (table,)), table


class CountingBranch(torch.nn.Module):
    """A branch that counts its calls in a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        def counted(x: torch.Tensor) -> torch.Tensor:
            self.count.add_(1)
            return x + self.count

        return torch.cond(x.sum() > 0, counted, lambda x: x - self.count, (x,))


class CountingLoop(CountingBranch):
    """A loop that counts its steps in a buffer, beside a tensor that it only reads."""

    def forward(self, x: torch.Tensor) -> Any:
        scale = x.exp()

        def step(n: torch.Tensor, y: torch.Tensor) -> Any:
            self.count.add_(n)
            return n + 1, y * scale + self.count

        return while_loop(lambda n, y: n < 3, step, (torch.tensor(0), x))


FORWARD = [
    results_of_unknown_size, integers, rows_one_by_one, constants_sizes_and_items, written_operand,
    CountingBranch(), CountingLoop(),
]  # fmt: skip


@pytest.mark.alternates(parts=3)
@pytest.mark.parametrize("kind", FORWARD, ids=name_of)
def test_forward(kind: Any) -> None:
    check(kind)


@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
def test_attention_with_a_function_of_each_score() -> None:
    bias = torch.randn(2, 64)

    def attend(x: torch.Tensor) -> torch.Tensor:
        def score(score: Any, batch: Any, head: Any, row: Any, column: Any) -> Any:
            return torch.where(row >= column, score + bias[head, row - column], -float("inf"))

        return flex_attention(x, x + 1, x * 2, score_mod=score)

    check(attend, [torch.randn(2, 2, 8, 16), torch.randn(3, 2, 11, 16)])


def test_a_write_into_a_view_is_refused_by_name() -> None:
    def function(x: torch.Tensor) -> Any:
        table = x.clone()

        def inside(row: torch.Tensor) -> torch.Tensor:
            row.add_(1)
            return row.clone()

        return torch.cond(x.sum() > 0, inside, lambda row: row - 1, (table[0],)), table

    with torch.no_grad(), pytest.raises(Exception, match="writes into a view"):
        torch.compile(function, backend="ortable", fullgraph=True)(X)
