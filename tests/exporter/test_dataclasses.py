"""Dataclasses that nobody registered, as arguments and results of exported modules."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import torch

import ortable
from ortable.compat.torch import pytree, unregister_pytree


@dataclasses.dataclass
class Inner:
    value: torch.Tensor
    name: str = "inner"


@dataclasses.dataclass(frozen=True)
class Result:
    total: torch.Tensor
    inner: Inner | None = None
    rest: Any = None
    size: int = 3
    dtype: torch.dtype = torch.float16
    double: torch.Tensor | None = dataclasses.field(init=False, default=None)

    def __post_init__(self) -> None:
        object.__setattr__(self, "double", self.total * 2)


@dataclasses.dataclass(slots=True)
class Options:
    x: torch.Tensor
    scale: float = 2.0
    inner: Inner | None = None


class Returns(torch.nn.Module):
    def forward(self, x):
        rest = [x, Result(x.sum())]
        return {"result": Result(x + 1, Inner(x * 2), rest, x.shape[0]), "more": (Inner(x),)}


class Takes(torch.nn.Module):
    def forward(self, options, y=None):
        assert options.inner is not None
        return Options(options.x * options.scale + options.inner.value, 1.0, options.inner)


X = torch.rand(2, 3)
CLASSES = {Inner, Result, Options}


def assert_same(actual: Any, expected: Any) -> None:
    """Compare nests of dataclasses, field by field."""
    assert type(actual) is type(expected)
    if dataclasses.is_dataclass(expected):
        fields = [field.name for field in dataclasses.fields(expected)]
        actual = [getattr(actual, name) for name in fields]
        expected = [getattr(expected, name) for name in fields]
    if isinstance(expected, dict):
        assert actual.keys() == expected.keys()
        actual, expected = list(actual.values()), list(expected.values())
    if isinstance(expected, list | tuple):
        for pair in zip(actual, expected, strict=True):
            assert_same(*pair)
    elif isinstance(expected, torch.Tensor):
        torch.testing.assert_close(actual, expected)
    else:
        assert actual == expected


@pytest.mark.parametrize("options", [{}, {"tracing": True}, {"fallback": True}, {"validate": True}])
def test_results_are_dataclasses_again(options: dict[str, bool]) -> None:
    program = ortable.export(
        Returns(),
        (X,),
        dynamic_shapes={"x": {0: "batch"}},
        output_names="auto",
        export_options=ortable.ExportOptions(**options),
    )
    assert not CLASSES & set(pytree.SUPPORTED_NODES)
    x = torch.rand(5, 3)
    assert_same(program(x), Returns()(x))
    assert program.validate()
    assert not CLASSES & set(pytree.SUPPORTED_NODES)
    assert program.output_names[:3] == ["result_total", "result_inner_value", "result_rest_0"]


def test_arguments_may_be_dataclasses() -> None:
    shapes: Any = {"options": [{0: "batch"}, None, [{0: "batch"}]]}
    program = ortable.export(Takes(), (Options(X, 2.0, Inner(X)),), dynamic_shapes=shapes)
    assert not CLASSES & set(pytree.SUPPORTED_NODES)
    x = torch.rand(4, 3)
    call = Options(x, 2.0, Inner(x + 1))
    assert_same(program(call), Takes()(call))
    assert_same(program(options=call), Takes()(call))
    assert program.validate(call)
    for bad, message in (
        (Options(x, 3.0, Inner(x)), "'options.scale' is 3.0"),
        (Options(x, 2.0, Inner(x, "other")), "'options.inner.name' is 'other'"),
        (Options(x), "it lacks 'options.inner.value'"),
        (x, "it lacks 'options.x'"),
    ):
        with pytest.raises(ortable.InputError, match=message):
            program(bad)


def test_a_dict_of_shapes_may_name_fields_without_tensors() -> None:
    field_shapes: dict[str, Any] = {"x": {0: "batch"}, "scale": None, "inner": None}
    call = Options(X, 2.0, Inner(X[0]))
    program = ortable.export(Takes(), (call,), dynamic_shapes={"options": field_shapes})
    other = Options(torch.rand(5, 3), 2.0, Inner(X[0]))
    assert_same(program(other), Takes()(other))
    call = Options(X, 2.0, Inner(X))
    inner_shapes = {"value": {0: "batch"}, "name": None}
    field_shapes["inner"] = inner_shapes
    program = ortable.export(Takes(), (call,), dynamic_shapes={"options": field_shapes})
    other = Options(torch.rand(5, 3), 2.0, Inner(torch.rand(5, 3)))
    assert_same(program(other), Takes()(other))
    inner_shapes["label"] = None
    with pytest.raises(ortable.ExportError, match=r"'options.inner' needs one entry for each"):
        ortable.export(Takes(), (call,), dynamic_shapes={"options": field_shapes})


def test_a_registered_dataclass_stays_registered() -> None:
    torch.export.register_dataclass(Options)
    try:
        call = Options(X, 2.0, Inner(X))
        program = ortable.export(Takes(), (call,))
        assert_same(program(call), Takes()(call))
        assert {Options} == CLASSES & set(pytree.SUPPORTED_NODES)
    finally:
        unregister_pytree(Options)


class Attribute(torch.nn.Module):
    def forward(self, x):
        result = Inner(x)
        result.extra = x  # type: ignore[attr-defined]
        return result


class Opaque(torch.nn.Module):
    def forward(self, x):
        return Inner(x, object())  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("module", "options", "message"),
    [
        (Attribute(), {}, "Inner has the attribute 'extra', which is no field"),
        (Opaque(), {}, "the model returns a object"),
        (Returns(), {"strict": True}, "a class that torch cannot flatten"),
    ],
)
def test_what_cannot_be_rebuilt_is_named(module: Any, options: Any, message: str) -> None:
    with pytest.raises(ortable.ExportError, match=message):
        ortable.export(module, (X,), export_options=ortable.ExportOptions(**options))
    assert not CLASSES & set(pytree.SUPPORTED_NODES)
