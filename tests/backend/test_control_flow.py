"""Control flow under torch.compile equals eager, also where branches and bodies write tensors."""

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


def flatten(results: Any) -> list[torch.Tensor]:
    """Flatten results and convert numbers to tensors."""
    return [torch.as_tensor(leaf) for leaf in pytree.tree_leaves(results) if leaf is not None]


def check_module(module: Any, calls: list[torch.Tensor] = CALLS, backward: bool = False) -> None:
    """Check results, buffers and, with `backward`, gradients of a compiled module against eager."""
    eager, module_copy = copy.deepcopy(module), copy.deepcopy(module)
    compiled = torch.compile(module_copy, backend="ortable", fullgraph=True)
    with torch.set_grad_enabled(backward):
        for x in calls:
            inputs = [x.clone().requires_grad_(backward) for _ in range(2)]
            expected, got = flatten(eager(inputs[0])), flatten(compiled(inputs[1]))
            assert len(got) == len(expected)
            for left, right in zip(got, expected, strict=True):
                torch.testing.assert_close(left, right)
            if backward:
                for results in (expected, got):
                    sum((y.float() ** 2).sum() for y in results if y.requires_grad).backward()
                torch.testing.assert_close(inputs[1].grad, inputs[0].grad)
    if isinstance(module, torch.nn.Module):
        torch.testing.assert_close(module_copy.state_dict(), eager.state_dict())
        for left, right in zip(module_copy.parameters(), eager.parameters(), strict=True):
            if backward:
                torch.testing.assert_close(left.grad, right.grad)


# With gradients


def branches(x: torch.Tensor) -> Any:
    return torch.cond(
        x.sum() > 0, lambda x: (x.sin() + 1, x.clone()), lambda x: (x.cos() * 2, x * 3), (x * 1,)
    )


def nested_branches(x: torch.Tensor) -> Any:
    def branch(x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.max() > 1, lambda x: x * x.shape[0], lambda x: x.exp(), (x,))

    return torch.cond(x.sum() > 0, branch, lambda x: x - 30, (x,))


def condition_on_sizes(x: torch.Tensor) -> Any:
    return torch.cond(x.shape[0] > 5, lambda x: x.sin(), lambda x: x.cos(), (x,))


def running_sum(x: torch.Tensor) -> Any:
    return scan(lambda c, row: (c * 0.5 + row, (c * row).sin()), torch.zeros(3), x, dim=0)


def reversed_sum(x: torch.Tensor) -> Any:
    return scan(lambda c, v: (c + v, c * v), x.sum(1), x, dim=1, reverse=True)


def map_rows(x: torch.Tensor) -> Any:
    return torch_map(lambda row, w: (row.sin() * w, row.sum()), x, x.sum())


def loop(x: torch.Tensor) -> Any:
    return while_loop(
        lambda n, y: y.abs().sum() < 50, lambda n, y: (n + 1, y * 1.7 + 0.1), (torch.tensor(0), x)
    )


def branch_in_scan(x: torch.Tensor) -> Any:
    def step(carry: torch.Tensor, row: torch.Tensor) -> Any:
        state = torch.cond(row.sum() > 0, lambda c, r: c + r, lambda c, r: c * r, (carry, row))
        return state, state.clone()

    return scan(step, torch.ones(3), x, dim=0)


class Layers(torch.nn.Module):
    """A branch and a loop that contain layers."""

    def __init__(self) -> None:
        super().__init__()
        self.left = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.LayerNorm(3))
        self.cell = torch.nn.GRUCell(3, 3)

    def forward(self, x: torch.Tensor) -> Any:
        def step(carry: torch.Tensor, row: torch.Tensor) -> Any:
            state = self.cell(row[None], carry)
            return state, state[0].clone()

        branch_result = torch.cond(x.sum() > 0, self.left, lambda x: x.exp(), (x,))
        return scan(step, torch.zeros(1, 3), branch_result, dim=0)


DIFFERENTIABLE = [
    branches, nested_branches, condition_on_sizes, running_sum, reversed_sum, map_rows, loop,
    branch_in_scan, Layers(),
]  # fmt: skip


def get_name(function: Any) -> str:
    return getattr(function, "__name__", type(function).__name__)


@pytest.mark.alternates(parts=4)
@pytest.mark.parametrize("function", DIFFERENTIABLE, ids=get_name)
def test_forward_and_backward(function: Any) -> None:
    check_module(function, backward=True)


# Without gradients


def data_dependent_size(x: torch.Tensor) -> Any:
    result = torch.cond(x.sum() > 0, lambda x: x[1:] + 1, lambda x: torch.cat([x, x]), (x,))
    return result * 2, result.sum(1)


def integer_carry(x: torch.Tensor) -> Any:
    count, y = while_loop(lambda n, y: n < 6, lambda n, y: (n + 1, y + n), (x.shape[0], x))
    return y, y.sum() + count


def loop_over_rows(x: torch.Tensor) -> Any:
    return while_loop(
        lambda n, total: n < x.shape[0], lambda n, total: (n + 1, total + x[n]),
        (0, torch.zeros(3)),
    )  # fmt: skip


def constants_sizes_and_items(x: torch.Tensor) -> Any:
    def is_not_done(a: Any, b: Any, c: Any, n: Any, y: torch.Tensor) -> Any:
        return c < a * b

    def step(a: Any, b: Any, c: Any, n: Any, y: torch.Tensor) -> Any:
        return b, a, c * 2 + 1, n + 1, y + 1

    carry = (x.shape[0], x.shape[1], 1, x.sum().to(torch.int64).item(), x.sin())
    return [value + 1 for value in while_loop(is_not_done, step, carry)]


def write_operand(x: torch.Tensor) -> Any:
    table = x.clone()

    def write_table(table: torch.Tensor) -> torch.Tensor:
        table.add_(1)
        return table.clone()

    return torch.cond(x.sum() > 0, write_table, lambda table: table - 1, (table,)), table


class CountingBranch(torch.nn.Module):
    """A branch that counts its calls in a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        def count_and_add(x: torch.Tensor) -> torch.Tensor:
            self.count.add_(1)
            return x + self.count

        return torch.cond(x.sum() > 0, count_and_add, lambda x: x - self.count, (x,))


class CountingLoop(CountingBranch):
    """A loop that counts its steps in a buffer and reads another tensor."""

    def forward(self, x: torch.Tensor) -> Any:
        scale = x.exp()

        def step(n: torch.Tensor, y: torch.Tensor) -> Any:
            self.count.add_(n)
            return n + 1, y * scale + self.count

        return while_loop(lambda n, y: n < 3, step, (torch.tensor(0), x))


FORWARD = [
    data_dependent_size, integer_carry, loop_over_rows, constants_sizes_and_items, write_operand,
    CountingBranch(), CountingLoop(),
]  # fmt: skip


@pytest.mark.alternates(parts=3)
@pytest.mark.parametrize("function", FORWARD, ids=get_name)
def test_forward(function: Any) -> None:
    check_module(function)


@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
def test_attention_with_a_function_of_each_score() -> None:
    bias = torch.randn(2, 64)

    def attend(x: torch.Tensor) -> torch.Tensor:
        def modify_score(score: Any, batch: Any, head: Any, row: Any, column: Any) -> Any:
            return torch.where(row >= column, score + bias[head, row - column], -float("inf"))

        return flex_attention(x, x + 1, x * 2, score_mod=modify_score)

    check_module(attend, [torch.randn(2, 2, 8, 16), torch.randn(3, 2, 11, 16)])


def test_a_write_into_a_view_is_refused_by_name() -> None:
    def function(x: torch.Tensor) -> Any:
        table = x.clone()

        def write_row(row: torch.Tensor) -> torch.Tensor:
            row.add_(1)
            return row.clone()

        return torch.cond(x.sum() > 0, write_row, lambda row: row - 1, (table[0],)), table

    with torch.no_grad(), pytest.raises(Exception, match="writes into a view"):
        torch.compile(function, backend="ortable", fullgraph=True)(X)
