"""Conversion of in-place writes, directly or after torch's functionalization."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch

from ortable import Dispatcher, ExportError, ExportOptions, export, to_onnx
from ortable.interpreter.mutation import elidable_mutations
from ortable.interpreter.tables import generated_tables
from tests.onnx_runs import run


class Model(torch.nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function
        self.norm = torch.nn.BatchNorm1d(3)

    def forward(self, x: torch.Tensor) -> Any:
        return self.function(self, x)


def norm_then_relu(m: Model, x: torch.Tensor) -> Any:
    return torch.nn.functional.relu_(m.norm(x)) + 1


def read_before_and_after(m: Model, x: torch.Tensor) -> Any:
    y = x * 2
    total = y.sum()
    y.add_(1)
    return total, y, y * 3


def chain(m: Model, x: torch.Tensor) -> Any:
    y = x * 2
    a = y.relu_()
    b = a.add_(1)
    return y, a * 2, b


def view_before(m: Model, x: torch.Tensor) -> Any:
    y = x * 2
    z = y.view(-1)
    y.add_(1)
    return z


def view_between(m: Model, x: torch.Tensor) -> Any:
    y = x * 2
    y.add_(1)
    v = y[0]
    y.mul_(2)
    return v


def write_through_view(m: Model, x: torch.Tensor) -> Any:
    y = x * 2
    y[:, 0].mul_(5)
    return y


def alias_of_the_input(m: Model, x: torch.Tensor) -> Any:
    y = torch.nn.functional.dropout(x, training=False)
    y.relu_()
    return y + x


def alias_missing_from_schema(m: Model, x: torch.Tensor) -> Any:
    y = x * 2
    z = torch.ops.aten._unsafe_view(y, [12])
    z.add_(1)
    return z


def write_of_wider_operand(m: Model, x: torch.Tensor) -> Any:
    y = (x * 2).half()
    z = y + 1
    z.add_(x)
    return z


def comparison_in_place(m: Model, x: torch.Tensor) -> Any:
    y = x * 2
    return y.le_(1.5), y.ne_(0)


UNOBSERVED_WRITES = [norm_then_relu, read_before_and_after, chain]
OBSERVED_WRITES = [view_before, view_between, write_through_view, write_of_wider_operand]
OBSERVED_WRITES += [alias_missing_from_schema, comparison_in_place]


def _export(function: Callable[..., Any]) -> tuple[torch.export.ExportedProgram, torch.Tensor]:
    x = torch.randn(4, 3)
    return torch.export.export(Model(function).eval(), (x.clone(),)), x


def _count_writes(program: torch.export.ExportedProgram) -> tuple[int, int]:
    """Return the number of writes in the graph and how many can be elided."""
    converters = generated_tables().converters
    elidable = elidable_mutations(program.graph_module, converters.__contains__)
    operators = [n.target for n in program.graph.nodes if n.op == "call_function"]
    writes = [op for op in operators if hasattr(op, "_schema") and op._schema.is_mutable]
    return len(writes), len(elidable)


@pytest.mark.parametrize("function", UNOBSERVED_WRITES)
def test_writes_that_nobody_sees_need_no_functionalisation(function: Callable[..., Any]) -> None:
    program, _ = _export(function)
    writes, elidable = _count_writes(program)
    assert writes == elidable > 0


@pytest.mark.parametrize("function", OBSERVED_WRITES)
def test_writes_that_somebody_may_see_are_left_to_torch(function: Callable[..., Any]) -> None:
    program, _ = _export(function)
    writes, elidable = _count_writes(program)
    assert elidable < writes


@pytest.mark.parametrize("function", [*UNOBSERVED_WRITES, *OBSERVED_WRITES])
def test_results_equal_eager(function: Callable[..., Any]) -> None:
    program, x = _export(function)
    expected = Model(function).eval()(x.clone())
    expected = expected if isinstance(expected, tuple) else (expected,)
    proto = to_onnx(copy.deepcopy(program))
    for actual, expected_value in zip(run(proto, x), expected, strict=False):
        torch.testing.assert_close(actual, expected_value)


def write_after_dropout(m: Model, x: torch.Tensor) -> Any:
    y = torch.nn.functional.dropout(x, training=False)
    x.add_(1)
    return y * 2


def write_after_meshgrid(m: Model, x: torch.Tensor) -> Any:
    rows, columns = torch.meshgrid(x[0], x[1], indexing="ij")
    x.add_(1)
    return rows, columns


def write_after_broadcast(m: Model, x: torch.Tensor) -> Any:
    wide, _ = torch.broadcast_tensors(x, x[None])
    x.mul_(3)
    return wide + 0


def write_after_atleast_1d(m: Model, x: torch.Tensor) -> Any:
    first = torch.atleast_1d([x, x[0]])[0]
    x.t().add_(1)
    return first * 1


def write_to_zero_dropout(m: Model, x: torch.Tensor) -> Any:
    y = torch.nn.functional.dropout(x, p=0.0, training=True)
    y.add_(1)
    return x * 2


def write_to_unsafe_split(m: Model, x: torch.Tensor) -> Any:
    torch.unsafe_split(x, 2)[0].add_(1)
    return x * 2


def write_after_unsafe_split(m: Model, x: torch.Tensor) -> Any:
    parts = torch.unsafe_split_with_sizes(x, [1, 3])
    x.add_(1)
    return parts[1] * 2


def write_to_unsafe_chunk(m: Model, x: torch.Tensor) -> Any:
    y = x + 1
    torch.unsafe_chunk(y, 2)[1].mul_(3)
    return y


UNDECLARED_ALIASES = [alias_of_the_input, write_after_dropout, write_after_meshgrid]
UNDECLARED_ALIASES += [write_after_broadcast, write_after_atleast_1d, write_to_zero_dropout]
UNDECLARED_ALIASES += [write_to_unsafe_split, write_after_unsafe_split, write_to_unsafe_chunk]


@pytest.mark.alternates("table")
@pytest.mark.parametrize("table", [None, "default", "all"])
@pytest.mark.parametrize("function", UNDECLARED_ALIASES)
def test_a_write_into_what_an_operator_returns_unsaid_is_seen(
    function: Callable[..., Any], table: str | None
) -> None:
    """The schema declares no alias, so torch's functionalization would lose the write."""
    program, x = _export(function)
    assert _count_writes(program) == (1, 0)
    before = [(node.target, node.args, node.kwargs) for node in program.graph.nodes]
    proto = to_onnx(program, export_options=ExportOptions(decomposition_table=table))
    assert [(node.target, node.args, node.kwargs) for node in program.graph.nodes] == before
    expected = Model(function).eval()(x.clone())
    expected = expected if isinstance(expected, tuple) else (expected,)
    for actual, expected_value in zip(run(proto, x), expected, strict=False):
        torch.testing.assert_close(actual, expected_value)


@pytest.mark.parametrize("function", [write_to_zero_dropout, write_to_unsafe_split])
def test_a_converter_of_the_users_own_refuses_what_torch_would_lose(
    function: Callable[..., Any],
) -> None:
    program, _ = _export(function)
    name = "aten::dropout" if function is write_to_zero_dropout else "aten::unsafe_split.Tensor"
    dispatcher = Dispatcher({name: lambda graph, res, x, *args: graph.make_node("Identity", [x])})
    with pytest.raises(ExportError, match=f"{name}.* returns memory of its input"):
        to_onnx(program, dispatcher=dispatcher)


class Rotary(torch.nn.Module):
    """Keeps its last angles in a buffer, as the rotary embeddings of a library do."""

    def __init__(self, persistent: bool) -> None:
        super().__init__()
        self.register_buffer("angles", torch.zeros(16), persistent=persistent)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", enabled=False):
            self.angles[: x.shape[1]] = torch.arange(x.shape[1]).float()
            return x * self.angles[: x.shape[1]].detach()


class Rotated(torch.nn.Module):
    def __init__(self, persistent: bool) -> None:
        super().__init__()
        self.rotary = Rotary(persistent)
        self.again = torch.nn.Sequential(self.rotary)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.again(x).relu()


def test_an_embedding_that_scales_its_rows_is_refused_with_code_that_helps() -> None:
    model, rows = torch.nn.Embedding(10, 4, max_norm=0.5), torch.arange(10)
    with pytest.raises(ExportError, match=r"an nn.Embedding e with max_norm.*torch.renorm\("):
        export(model, (rows,))
    expected = copy.deepcopy(model)(rows)
    with torch.no_grad():
        model.weight.copy_(torch.renorm(model.weight, model.norm_type, 0, model.max_norm))
    model.max_norm = None
    torch.testing.assert_close(export(model, (rows,))(rows), expected)


@pytest.mark.parametrize("persistent", [False, True])
def test_a_buffer_with_two_names_is_written(persistent: bool) -> None:
    model, x = Rotated(persistent), torch.randn(2, 5)
    program = export(model, (x,), export_options=ExportOptions(strict=False))
    assert not model.rotary.angles.any()
    torch.testing.assert_close(program(x), model(x))
