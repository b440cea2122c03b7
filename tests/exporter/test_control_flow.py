"""Branches and loops of exported models, nested ones too, at other sizes than the example's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch._higher_order_ops import scan, while_loop
from torch._higher_order_ops.associative_scan import associative_scan
from torch._higher_order_ops.map import map as torch_map

import ortable
from ortable.errors import ExportError
from tests.modules import FunctionOfX

from .helpers import assert_same

# torch's loops compile themselves even in eager; the sizes that they specialize on would reach the
# next export.
pytestmark = [pytest.mark.usefixtures("fresh_dynamo"), pytest.mark.alternates(parts=3)]

X = torch.arange(12.0).reshape(4, 3) / 7 - 0.5
Y = torch.arange(21.0).reshape(7, 3) / 9 - 1
# The sum is positive, negative; batch 4 and 7; large values, and a batch of one.
CALLS = [X, -X, Y, -Y, Y * 5, Y[:1], -Y[:1]]
Function = Callable[[torch.Tensor], Any]


def check(module: torch.nn.Module, calls: list[torch.Tensor], smallest: int = 2) -> Any:
    """Export with a dynamic batch, compare every call with eager, and return the model."""
    batch = torch.export.Dim("batch", min=smallest, max=100)
    model = ortable.to_onnx(module.eval(), (calls[0],), dynamic_shapes=({0: batch},))
    for x in calls:
        assert_same(model, module, (x,))
    return model


def positive(x: torch.Tensor) -> torch.Tensor:
    """Return a predicate that is true for some calls and false for others."""
    return x.sum() > 0


# Branches


def a_copy_of_the_input(x: torch.Tensor) -> Any:
    return torch.cond(positive(x), lambda x: x.clone(), lambda x: x + 1, (x,))


def constants(x: torch.Tensor) -> Any:
    return torch.cond(positive(x), lambda x: torch.ones(3), lambda x: torch.tensor([1.0, 2, 3]),
                      (x,))  # fmt: skip


def integers(x: torch.Tensor) -> Any:
    return torch.cond(positive(x), lambda x: (x + 1, 3), lambda x: (x * 2, 5), (x,))


def a_dictionary(x: torch.Tensor) -> Any:
    return torch.cond(
        positive(x),
        lambda x: {"a": x + 1, "b": (x * 2, x.sum())},
        lambda x: {"a": x * 2, "b": (x - 1, x.max())},
        (x,),
    )


def other_dtypes(x: torch.Tensor) -> Any:
    return torch.cond(
        positive(x),
        lambda x: (x.double().sin().half(), x > 0),
        lambda x: ((x * 2).half(), x < 0),
        (x,),
    )


def a_size_from_outside(x: torch.Tensor) -> Any:
    rows = x.shape[0]
    return torch.cond(
        positive(x), lambda x: x.reshape(rows * 3) + rows, lambda x: x.flatten() * rows, (x,)
    )


def tensors_from_outside(x: torch.Tensor) -> Any:
    other = x.exp()
    return torch.cond(positive(x), lambda: x * other, lambda: x + other, ())


def a_condition_on_sizes(x: torch.Tensor) -> Any:
    return torch.cond(x.shape[0] > 5, lambda x: x + 1, lambda x: x - 1, (x,))


def results_of_unknown_size(x: torch.Tensor) -> Any:
    result = torch.cond(positive(x), lambda x: x[x > 0], lambda x: x.flatten()[:2] * 1, (x,))
    return result * 2, result.shape[0]


def writes_inside(x: torch.Tensor) -> Any:
    def inside(x: torch.Tensor) -> torch.Tensor:
        y = x.clone()
        y.add_(1)
        y[0] = 5.0
        return y

    return torch.cond(positive(x), inside, lambda x: x - 1, (x,))


def three_levels(x: torch.Tensor) -> Any:
    def middle(x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.max() > 1, inner, lambda x: x - 2, (x,))

    def inner(x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.min() > -0.2, lambda x: x * x.shape[0], lambda x: x / 2, (x,))

    return torch.cond(positive(x), middle, lambda x: x - 1, (x,))


BRANCHES = [
    a_copy_of_the_input, constants, integers, a_dictionary, other_dtypes, a_size_from_outside,
    tensors_from_outside, a_condition_on_sizes, results_of_unknown_size, writes_inside,
    three_levels,
]  # fmt: skip


@pytest.mark.alternates(parts=3)
@pytest.mark.parametrize("function", BRANCHES, ids=lambda f: f.__name__)
def test_branches(function: Function) -> None:
    model = check(FunctionOfX(function), CALLS)
    assert any(node.op_type == "If" for node in model.graph.node)


def test_branches_of_different_sizes() -> None:
    def function(x: torch.Tensor) -> Any:
        rows = torch.cond(positive(x), lambda x: x[1:] + 1, lambda x: torch.cat([x, x]), (x,))
        return rows * 2, rows.sum(1), rows.shape[0]

    check(FunctionOfX(function), [X, -X, Y, -Y], smallest=3)


class Submodules(torch.nn.Module):
    """Layers with weights and buffers as branches, which share a layer with the main graph."""

    def __init__(self) -> None:
        super().__init__()
        self.left = torch.nn.Sequential(
            torch.nn.Linear(3, 3), torch.nn.LayerNorm(3), torch.nn.GELU(), torch.nn.Dropout()
        )
        self.norm = torch.nn.BatchNorm1d(3)
        self.shared = torch.nn.Linear(3, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        def left(x: torch.Tensor) -> torch.Tensor:
            return self.shared(self.left(x))

        def right(x: torch.Tensor) -> torch.Tensor:
            return self.shared(self.norm(x))

        return torch.cond(positive(x), left, right, (x,)) + self.shared(x)


def test_layers_as_branches_share_their_weights() -> None:
    model = check(Submodules(), CALLS)
    names = [tensor.name for tensor in model.graph.initializer]
    assert len(set(names)) == len(names)
    assert sum("shared" in name for name in names) == 2


# Loops


def steps_that_depend_on_data(x: torch.Tensor) -> Any:
    return while_loop(
        lambda n, y: y.abs().sum() < 50, lambda n, y: (n + 1, y * 1.7 + 0.1), (torch.tensor(0), x)
    )


def no_step(x: torch.Tensor) -> Any:
    return while_loop(lambda n, y: n < 0, lambda n, y: (n + 1, y * 2), (torch.tensor(0), x))


def an_integer_carry(x: torch.Tensor) -> Any:
    return while_loop(lambda n, y: n < x.shape[0], lambda n, y: (n + 1, y + n), (0, x))


def a_size_as_carry(x: torch.Tensor) -> Any:
    return while_loop(lambda n, y: n < 6, lambda n, y: (n + 1, y + n), (x.shape[0], x))


def a_row_at_each_step(x: torch.Tensor) -> Any:
    return while_loop(
        lambda n, total: n < x.shape[0],
        lambda n, total: (n + 1, total + x[n] * 2),
        (0, torch.zeros(3)),
    )


def an_item_at_each_step(x: torch.Tensor) -> Any:
    def step(n: torch.Tensor, total: torch.Tensor) -> Any:
        row = n.item()
        torch._check(row >= 0)
        torch._check(row < x.shape[0])
        return n + 1, total + x.select(0, row)

    return while_loop(lambda n, total: n < x.shape[0], step, (torch.tensor(0), torch.zeros(3)))


def an_integer_carry_as_place(x: torch.Tensor) -> Any:
    def step(n: Any, y: torch.Tensor) -> Any:
        y = y.clone()
        torch._check(n >= 0)
        torch._check(n < x.shape[0])
        y.select(0, n).copy_(y.select(0, n) + n)
        return n + 1, y

    count, y = torch.ops.higher_order.while_loop(lambda n, y: n < x.shape[0], step, (0, x), ())
    torch._check(count > 0)
    return count + 1, count + y, count < x.shape[0], torch.ones(count * 2)


def structures_of_integers(x: torch.Tensor) -> Any:
    def condition(sizes: Any, numbers: Any, y: torch.Tensor) -> Any:
        return numbers["n"][0] * numbers["n"][1] < sizes[0] * sizes[1]

    def step(sizes: Any, numbers: Any, y: torch.Tensor) -> Any:
        first, second = numbers["n"]
        return (sizes[0] + 1, sizes[1]), {"n": (first + 1, second + 2)}, y + first

    carry = ((x.shape[0], x.shape[1]), {"n": (2, 2)}, x.sin())
    sizes, numbers, y = while_loop(condition, step, carry)
    return sizes, [n + 1 for n in numbers["n"]], [n + y for n in numbers["n"]]


def written_carries(x: torch.Tensor) -> Any:
    def step(n: torch.Tensor, table: torch.Tensor) -> Any:
        table = table.clone()
        table[0] += 1
        table.index_copy_(0, n.reshape(1), x[:1])
        return n + 1, table

    return while_loop(lambda n, table: n < 5, step, (torch.tensor(0), torch.zeros(8, 3)))


def carries_that_change_places(x: torch.Tensor) -> Any:
    return while_loop(
        lambda n, y, z: n < 3,
        lambda n, y, z: (n + 1, z.clone(), y.clone()),
        (torch.tensor(0), x, x + 1),
    )


def a_dictionary_as_carry(x: torch.Tensor) -> Any:
    def step(carry: Any) -> Any:
        y, total = carry["y"]
        return ({"n": carry["n"] + 1, "y": (y * 2, total + 1)},)

    return while_loop(
        lambda carry: carry["n"] < 4, step, ({"n": torch.tensor(0), "y": (x, x.sum())},)
    )


def scan_with_results_of_other_dtypes(x: torch.Tensor) -> Any:
    return scan(lambda n, row: (n + 1, (row > 0, row.half(), n * 2)), torch.tensor(0), x, dim=0)


def scan_backwards_along_columns(x: torch.Tensor) -> Any:
    return scan(lambda c, v: (c + v, c * v), x.sum(1), x, dim=-1, reverse=True)


def scan_with_a_constant_result(x: torch.Tensor) -> Any:
    return scan(lambda c, row: (c + row, torch.ones(2)), torch.zeros(3), x, dim=0)


def scan_over_places(x: torch.Tensor) -> Any:
    return scan(
        lambda c, n: (c + x.sum() * n, c * n), torch.zeros(3), torch.arange(x.shape[0]), dim=0
    )


def map_of_structures(x: torch.Tensor) -> Any:
    rows = x.shape[0]
    return torch_map(
        lambda row, w: (row["a"] + w, {"b": row["b"].sum() * rows}),
        {"a": x, "b": x + 1},
        x.sum(),
    )


def map_to_longer_rows(x: torch.Tensor) -> Any:
    return torch_map(lambda row: torch.cat([row, row]), x)


def branch_in_loop_in_branch(x: torch.Tensor) -> Any:
    def step(n: torch.Tensor, y: torch.Tensor) -> Any:
        return n + 1, torch.cond(n % 2 == 0, lambda y: y + x.shape[0], lambda y: y * 2, (y,))

    def left(x: torch.Tensor) -> torch.Tensor:
        return while_loop(lambda n, y: n < 5, step, (torch.tensor(0), x))[1]

    return torch.cond(positive(x), left, lambda x: x - 1, (x,))


def loop_in_scan(x: torch.Tensor) -> Any:
    def step(carry: torch.Tensor, row: torch.Tensor) -> Any:
        n, total = while_loop(
            lambda n, y: y.sum() < 5, lambda n, y: (n + 1, y + 1), (torch.tensor(0), carry.abs())
        )
        return total * 0.5 + row, (total.clone(), n.clone())

    return scan(step, torch.zeros(3), x, dim=0)


def scan_in_scan_in_loop(x: torch.Tensor) -> Any:
    def outer(carry: torch.Tensor, row: torch.Tensor) -> Any:
        last, steps = scan(
            lambda c, v: (c + v * row.sum(), c + x.shape[0]), carry.sum(), row, dim=0
        )
        return carry + last, steps / 10

    def step(n: torch.Tensor, y: torch.Tensor) -> Any:
        return n + 1, scan(outer, torch.zeros(3), y, dim=0)[1] / 5

    return while_loop(lambda n, y: n < 3, step, (torch.tensor(0), x))


LOOPS = [
    steps_that_depend_on_data, no_step, an_integer_carry, a_size_as_carry, a_row_at_each_step,
    an_item_at_each_step, an_integer_carry_as_place, structures_of_integers, written_carries,
    carries_that_change_places, a_dictionary_as_carry, scan_with_results_of_other_dtypes,
    scan_backwards_along_columns, scan_with_a_constant_result, scan_over_places, map_of_structures,
    map_to_longer_rows, branch_in_loop_in_branch, loop_in_scan, scan_in_scan_in_loop,
]  # fmt: skip


@pytest.mark.alternates(parts=5)
@pytest.mark.parametrize("function", LOOPS, ids=lambda f: f.__name__)
def test_loops(function: Function) -> None:
    model = check(FunctionOfX(function), CALLS)
    operators = {node.op_type for node in model.graph.node}
    assert operators & {"Loop", "Scan"} or "If" in operators


class Recurrent(torch.nn.Module):
    """A recurrent layer whose cell is the step of a scan."""

    def __init__(self) -> None:
        super().__init__()
        self.cell = torch.nn.LSTMCell(3, 4)

    def forward(self, x: torch.Tensor) -> Any:
        def step(carry: Any, row: torch.Tensor) -> Any:
            hidden, cell = self.cell(row[None], carry)
            return (hidden, cell), hidden[0].clone()

        return scan(step, (torch.zeros(1, 4), torch.zeros(1, 4)), x, dim=0)


def test_a_cell_is_the_step_of_a_scan() -> None:
    model = check(Recurrent(), CALLS)
    assert [node.op_type for node in model.graph.node].count("Scan") == 1


def test_an_associative_scan_of_known_length() -> None:
    def function(x: torch.Tensor) -> Any:
        def combine(left: Any, right: Any) -> Any:
            top = torch.maximum(left["top"], right["top"])
            total = left["sum"] * (left["top"] - top).exp()
            return {"top": top, "sum": total + right["sum"] * (right["top"] - top).exp()}

        start = {"top": x, "sum": torch.ones_like(x)}
        return associative_scan(combine, start, dim=0, reverse=True, combine_mode="generic")

    model = ortable.to_onnx(FunctionOfX(function), (Y,))
    for x in (Y, Y * 3):
        assert_same(model, FunctionOfX(function), (x,))


# Unsupported control flow


class Counting(torch.nn.Module):
    """A branch that writes into a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        def increment(x: torch.Tensor) -> torch.Tensor:
            self.count.add_(1)
            return x + self.count

        return torch.cond(positive(x), increment, lambda x: x - 1, (x,))


def test_a_branch_that_writes_into_a_buffer_is_refused() -> None:
    with pytest.raises(ExportError, match="input mutation"):
        ortable.to_onnx(Counting(), (X,))
    with torch.no_grad(), pytest.raises(ExportError, match="return the new value"):
        ortable.to_onnx(Counting(), (X,))
