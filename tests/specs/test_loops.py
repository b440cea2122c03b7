"""Loops of torch (scan, map, while_loop, associative_scan) and nested graphs equal eager."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch._higher_order_ops import scan, strict_mode, while_loop, while_loop_stack_output
from torch._higher_order_ops.associative_scan import associative_scan
from torch._higher_order_ops.map import map as torch_map
from torch._higher_order_ops.out_dtype import out_dtype
from torch.utils.checkpoint import checkpoint

from .test_control_flow import check

BATCH = torch.export.Dim("batch", min=2, max=100)
X = torch.arange(12.0).reshape(4, 3) / 7 - 0.5
Y = torch.arange(21.0).reshape(7, 3) / 9 - 1


class WeightedModule(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.tensor([0.5, 1.0, -2.0]))


class Scan(WeightedModule):
    reverse = False

    def forward(self, x: torch.Tensor) -> Any:
        def step(carry: torch.Tensor, row: torch.Tensor) -> Any:
            state = carry * self.weight + row
            return state, state.sin() + x.shape[0]

        return scan(step, torch.zeros(3), x, dim=0, reverse=self.reverse)


class ReversedScan(Scan):
    reverse = True


class ScanOfStructures(torch.nn.Module):
    """Scan with several carries (bool, int, float) and inputs, over another axis."""

    def forward(self, x: torch.Tensor) -> Any:
        def step(carry: Any, rows: Any) -> Any:
            count, is_found, total = carry
            left, right = rows
            is_found = is_found | (left.sum() > right.sum())
            return (count + 1, is_found, total + left), (count * 2, left * right)

        start = (torch.tensor(0), torch.tensor(False), torch.zeros(4))
        return scan(step, start, (x.t(), x.t() + 1), dim=0)


class NestedScan(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> Any:
        def inner(carry: torch.Tensor, element: torch.Tensor) -> Any:
            return carry + element, carry * element

        def step(carry: torch.Tensor, row: torch.Tensor) -> Any:
            total, steps = scan(inner, torch.zeros(()), row, dim=0)
            return carry + total, steps.cumsum(0)

        return scan(step, torch.zeros(()), x, dim=0)


class MapModule(WeightedModule):
    def forward(self, x: torch.Tensor) -> Any:
        return torch_map(lambda row, w: (row.sin() + w, row.sum()), x, self.weight)


class NestedMap(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> Any:
        def outer(row: torch.Tensor) -> torch.Tensor:
            return torch_map(lambda element: element.exp() * 2, row)

        return torch_map(outer, x)


class WhileModule(WeightedModule):
    def forward(self, x: torch.Tensor) -> Any:
        def condition(count: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
            return count < x.sum().abs() + 3

        def step(count: torch.Tensor, value: torch.Tensor) -> Any:
            return count + 1, value * self.weight + count

        return while_loop(condition, step, (torch.tensor(0), x))


class FalseWhile(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> Any:
        return while_loop(
            lambda flag, value: flag.clone(), lambda flag, value: (flag & False, value + 1),
            (torch.tensor(False), x),
        )  # fmt: skip


class IntegerCarry(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> Any:
        def condition(count: int, value: torch.Tensor) -> Any:
            return count * 2 < x.shape[0]

        def step(count: int, value: torch.Tensor) -> Any:
            return count + 1, value + count

        count, value = while_loop(condition, step, (0, x))
        return value, value.sum() + count


class NestedWhile(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> Any:
        def inner(value: torch.Tensor) -> torch.Tensor:
            results = while_loop(
                lambda n, y: n < 2, lambda n, y: (n + 1, y * 2), (torch.tensor(0), value)
            )
            return results[1]

        def step(count: torch.Tensor, value: torch.Tensor) -> Any:
            return count + 1, torch.cond(value.sum() > 0, inner, lambda y: y - 1, (value,))

        return while_loop(lambda n, y: n < 3, step, (torch.tensor(0), x))


class StackedWhile(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> Any:
        results = while_loop_stack_output(
            lambda n, y: n > 0,
            lambda n, y: (n - 1, y.cos()),
            (x.shape[0] + x.sum().long() * 0, x),
            (),
        )
        return results[1]


class AssociativeScan(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> Any:
        def combine(left: Any, right: Any) -> Any:
            return left[0] * right[0], left[1] * right[0] + right[1]

        return associative_scan(combine, (x, x + 1), dim=0, combine_mode="generic")


class ResizedBranches(torch.nn.Module):
    """The branches have results of different sizes, and integers as results."""

    def forward(self, x: torch.Tensor) -> Any:
        rows = torch.cond(x.sum() > 0, lambda y: y[:1] + 1, lambda y: y[:3] * 2, (x,))
        return rows.sum(0), rows.shape[0] + x.sum() * 0


class WideProduct(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> Any:
        small = (x * 100).to(torch.int8)
        return out_dtype(torch.ops.aten.mm.default, torch.int32, small, small.t())


class Regions(torch.nn.Module):
    """Operators that call a graph once: autograd modes, autocast, checkpoints."""

    def forward(self, x: torch.Tensor) -> Any:
        with torch.no_grad():
            left = x.sin()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            right = (x @ left.t()).float()
        checkpointed = checkpoint(lambda y: y.cos() * 2, left, use_reentrant=False)
        return left, right, checkpointed


class StrictMode(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> Any:
        return strict_mode(lambda y: (y.sin(), y + 1), (x,))


class AutocastBranch(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> Any:
        def multiply(y: torch.Tensor) -> torch.Tensor:
            with torch.autocast("cpu", dtype=torch.bfloat16):
                return (y @ y.t()).float()

        return torch.cond(x.sum() > 0, multiply, lambda y: y @ y.t() + 1, (x,))


@torch.compiler.nested_compile_region
def region(x: torch.Tensor) -> torch.Tensor:
    """Return a result of a region that torch compiles once."""
    return x.sin() + 1


class CompiledOnce(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> Any:
        return region(region(x) * 2)


@pytest.mark.alternates(parts=2)
@pytest.mark.parametrize(
    "kind", [ResizedBranches, WideProduct, Regions, StrictMode, AutocastBranch, CompiledOnce]
)
def test_a_graph_inside_the_graph_equals_eager(kind: type[torch.nn.Module]) -> None:
    check(kind(), [(X,), (-X,)])
    if kind is not ResizedBranches:
        check(kind(), [(X,), (Y,)], dynamic_shapes=({0: BATCH},))


@pytest.mark.alternates(parts=3)
@pytest.mark.parametrize(
    "kind",
    [
        Scan, ReversedScan, ScanOfStructures, NestedScan, MapModule, NestedMap, WhileModule,
        FalseWhile, IntegerCarry, NestedWhile, StackedWhile, AssociativeScan,
    ],
)  # fmt: skip
def test_a_loop_equals_eager(kind: type[torch.nn.Module]) -> None:
    for opset in (18, 26):
        check(kind(), [(X,), (X * 3,)], target_opset=opset)


@pytest.mark.alternates(parts=3)
@pytest.mark.parametrize(
    "kind",
    [Scan, ReversedScan, NestedScan, MapModule, NestedMap, WhileModule, IntegerCarry, NestedWhile],
)
def test_a_loop_over_a_dynamic_dimension_equals_eager(kind: type[torch.nn.Module]) -> None:
    check(kind(), [(X,), (Y,)], dynamic_shapes=({0: BATCH},))


@pytest.mark.alternates(parts=2)
@pytest.mark.parametrize("kind", [Scan, MapModule, NestedWhile, Regions])
def test_a_compiled_loop_equals_eager(kind: type[torch.nn.Module]) -> None:
    torch._dynamo.reset()
    module = kind().eval()
    with torch.no_grad():
        compiled = torch.compile(module, backend="ortable", fullgraph=True)
        for x in (X, X * 3):
            torch.testing.assert_close(compiled(x), module(x))


def test_an_effect_is_refused_by_name_in_a_compiled_graph() -> None:
    def print_number(x: torch.Tensor) -> torch.Tensor:
        torch._higher_order_ops.print("{}", 3)
        return x.sin()

    torch._dynamo.reset()
    with pytest.raises(Exception, match="prints and other effects"):
        options = {"fallback": "error"}
        torch.compile(print_number, backend="ortable", fullgraph=True, options=options)(X)
