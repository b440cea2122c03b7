"""torch's ShapesSpec, ParamsSpec and @dynamic_spec state the dynamic shapes of an export.

The cases follow PyTorch's own tests of these classes, through the exporter and the backend.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch._dynamo.testing
from torch.export import Dim
from torch.fx.experimental import dynamic_spec as specs
from torch.fx.experimental.dynamic_spec import ShapeVar, TensorSpec

import ortable
from ortable.errors import ExportError, InputError
from tests.exporter.test_dynamic_shapes import shapes

needs_newer_torch = pytest.mark.skipif(
    not hasattr(specs, "dynamic_spec"), reason="torch.export takes ShapesSpec from 2.15 on"
)

Pair = namedtuple("Pair", ["first", "second"])


class Rows(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.sum(0)


class Two(torch.nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return x.sum(0), y.sum(0)


class Number(torch.nn.Module):
    def forward(self, x: torch.Tensor, n: int) -> torch.Tensor:
        return x + n


class Longer(torch.nn.Module):
    """Has a branch on two sizes, which an assumption decides."""

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x.sum() + y.sum() if x.shape[0] > y.shape[0] else x.sum() - y.sum()


class Even(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.reshape(-1, 2, 3).sum(1) if x.shape[0] % 2 == 0 else x


class Containers(torch.nn.Module):
    def forward(self, d: Any, xs: Any, pair: Any) -> torch.Tensor:
        return d["b"].sum(0) + xs[1].sum(0) + pair.second.sum(0)


class Rest(torch.nn.Module):
    def forward(self, x: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
        return x.sum(0) + args[0].sum(0) + kwargs["foo"].sum(0)


def rows(*sizes: int) -> tuple[torch.Tensor, ...]:
    return tuple(torch.rand(size, 3) for size in sizes)


def check_calls(program: Any, module: torch.nn.Module, accepted: Any, refused: Any = ()) -> None:
    for args in accepted:
        torch.testing.assert_close(program(*args), module(*args))
    for args in refused:
        with pytest.raises(InputError):
            program(*args)


def exported(module: torch.nn.Module, args: Any, spec: Any, kwargs: Any = None) -> tuple[Any, Any]:
    program = ortable.export(module, args, kwargs, dynamic_shapes=spec)
    return program, shapes(program.model.graph.input)


def test_variables_are_names_with_ranges() -> None:
    module, example = Rows(), rows(8)
    entry = {"x": TensorSpec([ShapeVar("batch"), specs.STATIC])}
    for spec in (entry, specs.ParamsSpec(entry), specs.ShapesSpec(entry)):
        program, inputs = exported(module, example, spec)
        assert inputs == [["batch", 3]]
        check_calls(program, module, [rows(13), rows(1), rows(0)], [(torch.rand(8, 4),)])
    bounded = {"x": TensorSpec([ShapeVar("batch", min=4, max=128), 3])}
    program, _ = exported(module, example, bounded)
    check_calls(program, module, [rows(4), rows(128)], [rows(3), rows(129)])
    for static in (specs.ShapesSpec(), {"x": TensorSpec([None, None])}):
        program, inputs = exported(module, example, static)
        assert inputs == [[8, 3]]


def test_one_variable_is_one_dimension_and_equal_names_are_two() -> None:
    module, shared = Two(), ShapeVar("a")
    program, inputs = exported(
        module, rows(4, 7), {key: TensorSpec([ShapeVar("a"), None]) for key in ("x", "y")}
    )
    assert inputs == [["a", 3], ["a_2", 3]]
    check_calls(program, module, [rows(2, 9), rows(5, 5)])
    same = {key: TensorSpec([shared, None]) for key in ("x", "y")}
    program, inputs = exported(module, rows(5, 5), same)
    assert inputs == [["a", 3], ["a", 3]]
    check_calls(program, module, [rows(2, 2)], [rows(2, 9)])
    with pytest.raises(ExportError, match="the name 'a' but the sizes 6 and 5"):
        exported(module, rows(5, 6), same)
    derived = {"x": TensorSpec([shared, None]), "y": TensorSpec([shared * 2 - 1, None])}
    program, inputs = exported(module, rows(4, 7), derived)
    assert inputs == [["a", 3], ["2*a - 1", 3]]
    check_calls(program, module, [rows(3, 5)], [rows(3, 6)])
    with pytest.raises(ExportError, match="which is 7 in args, but its size is 8"):
        exported(module, rows(4, 8), derived)
    with pytest.raises(ExportError, match="no dimension is named 'a'"):
        exported(Rows(), rows(8), {"x": TensorSpec([shared * 2, None])})


def test_integers() -> None:
    module, x = Number(), torch.rand(4)
    length = ShapeVar("length")
    program, _ = exported(module, (x, 7), {"n": specs.IntVar("n", max=9)})
    check_calls(program, module, [(x, 9), (x, 0)], [(x, 10), (x, -1)])
    program, _ = exported(module, (x, 8), {"x": TensorSpec([length]), "n": length * 2})
    check_calls(program, module, [(torch.rand(5), 10)], [(torch.rand(5), 11)])
    program, _ = exported(module, (x, 7), {"n": 7})
    check_calls(program, module, [(x, 7)], [(x, 8)])
    with pytest.raises(ExportError, match="'n' is 10 in dynamic_shapes, but 7 in args"):
        exported(module, (x, 7), {"n": 10})
    with pytest.raises(ExportError, match="integers from 0 on"):
        exported(module, (x, -7), {"n": specs.IntVar("n", min=-50)})


def test_containers_and_variadic_parameters() -> None:
    spec = {
        "d": specs.DictSpec({"b": TensorSpec([ShapeVar("b"), None])}),
        "xs": specs.SeqSpec([None, TensorSpec([ShapeVar("x"), None])]),
        "pair": specs.ObjectSpec({"second": TensorSpec([ShapeVar("p"), None])}),
    }

    def make_call(*sizes: int) -> tuple[Any, ...]:
        a, b, c, d, e, f = rows(7, sizes[0], 4, sizes[1], 6, sizes[2])
        return {"a": a, "b": b}, [c, d], Pair(e, f)

    module = Containers()
    program, inputs = exported(module, make_call(8, 5, 9), spec)
    assert [shape[0] for shape in inputs] == [7, "b", 4, "x", 6, "p"]
    check_calls(program, module, [make_call(2, 6, 1)])
    _, inputs = exported(
        module, make_call(8, 5, 9), {"xs": specs.SeqSpec([TensorSpec([ShapeVar("x"), None])])}
    )
    assert [shape[0] for shape in inputs] == [7, 8, "x", 5, 6, 9]

    x, y, z, foo = rows(4, 5, 6, 7)
    variadic = {
        "x": TensorSpec([ShapeVar("x"), None]),
        "*args": [TensorSpec([ShapeVar("y"), None])],
        "**kwargs": {"foo": TensorSpec([ShapeVar("foo"), None])},
    }
    _, inputs = exported(Rest(), (x, y, z), variadic, {"foo": foo})
    assert [shape[0] for shape in inputs] == ["x", "y", 6, "foo"]
    only = {key: variadic[key] for key in ("*args", "**kwargs")}
    _, inputs = exported(Rest(), (x, y, z), only, {"foo": foo})
    assert [shape[0] for shape in inputs] == [4, "y", 6, "foo"]


def test_assumptions_decide_branches_and_are_checked() -> None:
    a, b = ShapeVar("a"), ShapeVar("b")
    both = {"x": TensorSpec([a, None]), "y": TensorSpec([b, None])}
    spec = specs.ShapesSpec(both, assumptions=[a > b])
    for example in (rows(5, 3), rows(1, 0)):  # the second one is enlarged within the assumption
        program, _ = exported(Longer(), example, spec)  # no warning: the branch is decided
        check_calls(program, Longer(), [rows(7, 3)], [rows(2, 3)])
    with pytest.raises(ExportError, match="'a > b' does not hold in args: a=3, b=5"):
        exported(Longer(), rows(3, 5), spec)
    with pytest.raises(ExportError, match="names 'b', and no dimension"):
        exported(Rows(), rows(3), specs.ShapesSpec({"x": both["x"]}, assumptions=[a > b]))
    for divisor in (2, 4):
        of_rows = specs.ShapesSpec({"x": both["x"]}, assumptions=[a % divisor == 0])
        program, _ = exported(Even(), rows(8), of_rows)
        check_calls(program, Even(), [rows(4)], [rows(5)])
        guards = {item.key: item.value for item in program.model.metadata_props}["ortable.guards"]
        assert guards == f"a % {divisor} == 0"
    with pytest.warns(UserWarning, match="holds only for sizes with"):
        exported(Even(), rows(8), {"x": both["x"]})


@needs_newer_torch
def test_the_decorator_attaches_a_specification() -> None:
    a = ShapeVar("a")
    attached = specs.ShapesSpec({"x": TensorSpec([a, None])}, assumptions=[a % 2 == 0])

    class Decorated(Even):
        @specs.dynamic_spec(attached)
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return super().forward(x)

    module = Decorated()
    program, inputs = exported(module, rows(8), None)
    assert inputs == [["a", 3]]
    check_calls(program, module, [rows(4)], [rows(5)])
    with pytest.raises(ExportError, match="has @dynamic_spec, and dynamic_shapes is given"):
        exported(module, rows(8), {"x": {0: "rows"}})


def test_specifications_that_do_not_fit() -> None:
    variable = ShapeVar("b")
    wrong = [
        (
            Rows(),
            rows(4),
            {"x": TensorSpec([variable, 4])},
            "is 4 in dynamic_shapes",
        ),
        (Rows(), rows(4), {"x": TensorSpec([variable])}, "for each of its 2 dimensions"),
        (Rows(), rows(4), {"x": variable}, "for each of its 2 dimensions"),
        (
            Rows(),
            rows(4),
            {"x": specs.DictSpec({"k": TensorSpec([variable])})},
            "names dimension 'k'",
        ),
        (Rows(), rows(4), {"z": TensorSpec([variable, None])}, "names 'z'"),
        (Number(), (torch.rand(3), 7), {"n": TensorSpec([variable])}, "for 'n', which is 7"),
    ]
    for module, args, spec, message in wrong:
        with pytest.raises(ExportError, match=message):
            exported(module, args, spec)


def test_observed_shapes_as_a_specification() -> None:
    module = Rest()
    with ortable.observe(module) as seen:
        for first, second, third in ((4, 5, 7), (6, 8, 9)):
            x, y, foo = rows(first, second, third)
            module(x, y, foo=foo)
    text = str(seen.shapes_spec)
    assert [key in text for key in ("x:", "*args:", "**kwargs:", "ShapeVar(batch")] == [True] * 4
    args, kwargs = seen.example
    _, inputs = exported(module, args, seen.shapes_spec, kwargs)
    assert [shape[0] for shape in inputs] == ["batch", "dim_0", "dim_1"]


def compiled(function: Callable[..., Any], spec: Any) -> tuple[Any, Any]:
    counter = torch._dynamo.testing.CompileCounterWithBackend("ortable")
    return torch.compile(function, backend=counter, dynamic_shapes=spec), counter


@pytest.fixture
def fresh() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


@needs_newer_torch
@pytest.mark.usefixtures("fresh")
def test_the_backend_compiles_unbacked_sizes_once() -> None:
    a, b = ShapeVar("a"), ShapeVar("b")
    layer = torch.nn.Linear(3, 2)

    def train(x: torch.Tensor) -> torch.Tensor:
        return layer(x).relu().sum(1)

    def join(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return torch.cat([x, y]).sum(0), x[:1] + y[-1:], torch.nn.functional.pad(x, (1, 1))

    one, both = (
        {"x": TensorSpec([a, None])},
        {"x": TensorSpec([a, None]), "y": TensorSpec([b, None])},
    )
    halves = specs.ShapesSpec(one, assumptions=[a % 2 == 0])
    cases = [
        (train, one, [rows(4), rows(9), rows(1), rows(0)]),
        (join, both, [rows(4, 2), rows(1, 7), rows(2, 1)]),
        (Even(), halves, [rows(4), rows(8)]),
        (lambda x: x["k"] + 1, {"x": specs.DictSpec({"k": TensorSpec([a, None])})},
         [({"k": x},) for x in rows(4, 8)]),
    ]  # fmt: skip
    for function, spec, calls in cases:
        result, counter = compiled(function, spec)
        for args in calls:
            torch.testing.assert_close(result(*args), function(*args))
        assert counter.frame_count == 1
    result, _ = compiled(train, one)
    for args in (rows(4), rows(1)):
        expected = torch.autograd.grad(train(*args).sum(), layer.weight)
        torch.testing.assert_close(torch.autograd.grad(result(*args).sum(), layer.weight), expected)
    result, _ = compiled(Even(), halves)
    with pytest.raises(RuntimeError, match="Mod"):  # torch asserts the assumption
        result(*rows(5))


class Asserts(torch.nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        torch._check(x.shape[0] % 2 == 0)
        torch._check(x.shape[0] > y.shape[0])
        return x.sum(0) + y.sum(0)


def test_assertions_of_a_program_are_conditions_of_its_calls() -> None:
    shapes_of_both = ({0: Dim("a", min=4, max=64)}, {0: Dim("b", max=3)})
    source = torch.export.export(
        Asserts(), rows(8, 3), dynamic_shapes=shapes_of_both,
        prefer_deferred_runtime_asserts_over_guards=True,
    )  # fmt: skip
    program = ortable.export(source)  # no warning: the program states them itself
    check_calls(program, Asserts(), [rows(6, 2)], [rows(7, 3), rows(66, 3)])
