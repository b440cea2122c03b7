"""Export of branches on sizes as If nodes with `ExportOptions(fallback=True)`."""

from __future__ import annotations

import re
import warnings

import pytest
import sympy
import torch
from torch.export import Dim

from ortable import ExportOptions, export, to_onnx
from ortable.errors import InputError
from ortable.exporter.capture.guard_proofs import choose_size_cases, find_uncovered_sizes
from tests.modules import FunctionOfX

from .helpers import assert_same

FALLBACK = ExportOptions(fallback=True, guards="error")
X = torch.rand(2, 6, 4)


def count_ifs(graph) -> int:
    """Return the number of If nodes in a graph and its subgraphs."""
    inner = [a.g for node in graph.node for a in node.attribute if a.HasField("g")]
    return sum(node.op_type == "If" for node in graph.node) + sum(count_ifs(g) for g in inner)


def steps(model) -> str:
    return next(p.value for p in model.metadata_props if p.key == "ortable.steps")


class ThreeBranches(torch.nn.Module):
    """A model of three branches with shared and separate weights and results of several sizes."""

    def __init__(self) -> None:
        super().__init__()
        self.shared = torch.nn.Linear(4, 4)
        self.long = torch.nn.Linear(4, 4)
        self.register_buffer("scale", torch.rand(4))

    def forward(self, x):
        y = self.shared(x)
        if x.shape[1] > 8:
            y = self.long(y)[:, :8] + torch.tensor([1.0, 2.0, 3.0, 4.0])
        elif x.shape[1] % 2 == 1:
            y = torch.cat([y, y[:, :1] * self.scale], 1)
        return {"y": y, "rest": [y.sum(1), 3, x]}


class Windows(torch.nn.Module):
    """A model with a number of windows, which torch specializes at 0 and 1."""

    def forward(self, x):
        n = x.shape[1] // 4
        if n == 0:
            return x.new_zeros(x.shape[0], 0, 4)
        windows = x[:, : n * 4].reshape(x.shape[0], n, 4, 4)
        both = torch.cat([torch.zeros_like(windows), windows], 2)
        if n > 1:
            both[:, 1:, :4] = windows[:, :-1]
        return both.sum(2)


class Raising(torch.nn.Module):
    """A model of which one branch raises."""

    def forward(self, x):
        if x.shape[1] < 5:
            raise ValueError("too short")
        return x[:, :5] if x.shape[1] > 20 else x * 2


class Fixed(torch.nn.Module):
    """A model without branches that computes with a size as a number, which torch specializes."""

    def forward(self, x):
        return x * float(int(x.shape[1] * 1.5) == 9)


class WritesInBranch(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("last", torch.zeros(4))

    def forward(self, x):
        if x.shape[1] > 8:
            self.last.copy_(x.sum((0, 1)))
        return x + self.last


class SizeAndDataBranches(torch.nn.Module):
    """A model with a branch on a size and a branch on data."""

    def forward(self, x):
        y = x * 2 if x.shape[1] > 8 else x + 1
        return y - 1 if y.sum() > 0 else y.abs()


SHAPES = {"x": {0: "batch", 1: "n"}}


@pytest.mark.parametrize(
    ("module", "count"), [(ThreeBranches(), 3), (Windows(), 4)], ids=["sides", "windows"]
)
def test_every_side_is_in_the_model(module, count) -> None:
    model = to_onnx(module, (X,), dynamic_shapes=SHAPES, export_options=FALLBACK)
    text = steps(model)
    assert count_ifs(model.graph) == count - 1 and "branches on sizes: a program each" in text
    assert re.search(r"a program each for .*n .*[<>]=? .*;", text), text
    for n in (2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 13, 16, 25):
        args = (torch.rand(3, n, 4),)
        assert_same(model, module, args)


def test_weights_are_in_the_model_once() -> None:
    module = ThreeBranches()
    model = to_onnx(module, (X,), dynamic_shapes=SHAPES, export_options=FALLBACK, rewrites="none")
    names = [i.doc_string for i in model.graph.initializer if i.doc_string]
    assert {"shared.bias", "long.bias", "scale"} <= set(names) and len(names) == len(set(names))


def test_a_program_takes_all_sizes_and_returns_what_the_module_does() -> None:
    module = ThreeBranches()
    program = export(module, (X,), dynamic_shapes=SHAPES, export_options=FALLBACK)
    for n in (6, 7, 20):
        x = torch.rand(2, n, 4)
        torch.testing.assert_close(program(x)["rest"][0], module(x)["rest"][0])


def test_validation_compares_on_both_sides() -> None:
    options = ExportOptions(fallback=True, guards="error", validate=True)
    builder = to_onnx(
        ThreeBranches(), (X,), dynamic_shapes=SHAPES, export_options=options, validate=True,
        return_builder=True,
    )[1]  # fmt: skip
    assert builder.record.sides == 3 and builder.record.comparisons


def test_what_is_left_out_is_said() -> None:
    module = Raising()
    with pytest.warns(UserWarning, match=r"\(n >= 5\) and \(n <= 20\)\) or|or \(n >= 5\)"):
        model = to_onnx(
            module, (X,), dynamic_shapes=SHAPES, export_options=ExportOptions(fallback=True)
        )
    assert "are left out: " in steps(model) and count_ifs(model.graph) == 1
    for n in (5, 6, 20, 21, 30):
        assert_same(model, module, (torch.rand(2, n, 4),))


def test_a_range_of_the_caller_needs_no_other_side() -> None:
    model = to_onnx(
        Raising(), (X,), dynamic_shapes={"x": {1: Dim("n", min=5, max=20)}}, export_options=FALLBACK
    )
    assert count_ifs(model.graph) == 0


def test_a_buffer_that_one_side_writes_is_refused_with_its_reason() -> None:
    module = WritesInBranch()
    with pytest.warns(UserWarning, match="n <= 8"):
        model = to_onnx(
            module, (X,), dynamic_shapes=SHAPES, export_options=ExportOptions(fallback=True)
        )
    assert "return, or write to, different values" in steps(model)
    assert_same(model, module, (X,))


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda x: x.sum(2) if x.shape[1] > 4 else x, "the dtype or rank of a result depends"),
        (lambda x: x.double() if x.shape[1] > 4 else x, "the dtype or rank of a result depends"),
        (lambda x: (x + 1, 3 if x.shape[1] > 4 else 4), "a result that is not a tensor depends on"),
        (lambda x: x[x > 0] if x.shape[1] > 4 else x[0, 0], "a size depends on data, on a side"),
        (lambda x: x * 2 if x.shape[1] ** 2 > 30 else x * 3, "condition on sizes contains Pow"),
    ],
    ids=["rank", "dtype", "number", "data", "power"],
)
def test_sides_that_are_not_joined_are_refused_by_the_program(function, message) -> None:
    module = FunctionOfX(function)
    with pytest.warns(UserWarning, match="holds only"):
        program = export(
            module, (X,), dynamic_shapes=SHAPES, export_options=ExportOptions(fallback=True)
        )
    assert message in str(program.report.steps)
    for n in (6, 9):
        torch.testing.assert_close(program(X[:, [0] * n]), module(X[:, [0] * n]))
    with pytest.raises(InputError, match=r"5 or more there|holds only for sizes"):
        program(X[:, :3])


def test_branches_on_sizes_and_on_data() -> None:
    module = SizeAndDataBranches()
    options = ExportOptions(tracing=True, guards="error")
    model = to_onnx(module, (X,), dynamic_shapes=SHAPES, export_options=options)
    for n in (3, 8, 9, 14):
        for sign in (1, -9):
            assert_same(model, module, (sign * torch.rand(2, n, 4),))


def test_without_a_fallback_there_is_one_side() -> None:
    with pytest.warns(UserWarning, match="n <= 8"):
        model = to_onnx(ThreeBranches(), (X,), dynamic_shapes=SHAPES)
    assert count_ifs(model.graph) == 0


def test_conditions_that_cover_all_sizes_are_proved() -> None:
    n = sympy.Symbol("n", integer=True, positive=True)
    m = sympy.Symbol("m", integer=True, positive=True)
    odd, even = sympy.Eq(sympy.Mod(n, 2), 1), sympy.Eq(sympy.Mod(n, 2), 0)
    large = sympy.Max(n, n - 3) > 9
    for conditions, expected in (
        ([[n > 8], [n <= 8]], []),
        ([[n > 8], [n < 8]], [{n: 8}]),
        ([[n > 100], [n <= 50]], [{n: size} for size in range(51, 101)]),
        ([[n > 8, m > 3], [n <= 8], [m <= 3]], []),
        ([[odd], [even]], []),
        ([[large], [n < 9]], [{n: 9}]),
    ):
        cases = choose_size_cases(conditions, {})
        assert cases is not None and list(find_uncovered_sizes(conditions, cases)) == expected
    assert choose_size_cases([[n > m]], {}) is None
    assert (
        choose_size_cases([[n > 10**6]], {}) is None and choose_size_cases([[n**2 > 9]], {}) is None
    )


def test_nothing_is_said_twice() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        to_onnx(ThreeBranches(), (X,), dynamic_shapes=SHAPES, export_options=FALLBACK)
