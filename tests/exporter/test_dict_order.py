"""Dicts keep their order in results, and a call accepts the keys of a dict in any order."""

from __future__ import annotations

import itertools
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
import torch

import ortable
from ortable.exporter.to_onnx import to_onnx

from .helpers import run_onnx

X = torch.tensor([1.0, 2.0, 3.0])
# Keys in unsorted order; the values have one shape, so that a swap changes only numbers.
ORDERS = list(itertools.permutations(("zeta", "alpha", "mid")))


def _values(x: torch.Tensor) -> dict[str, torch.Tensor]:
    return {"zeta": x + 1, "alpha": x * 10, "mid": -x}


class Results(torch.nn.Module):
    """A module that returns a dict of three tensors in an order and container type."""

    def __init__(self, order: tuple[str, ...], kind: Callable[[Any], Any] = dict) -> None:
        super().__init__()
        self.order, self.kind = order, kind

    def forward(self, x: torch.Tensor) -> Any:
        values = _values(x)
        return self.kind([(name, values[name]) for name in self.order])


class Arguments(torch.nn.Module):
    """A module whose argument is a dict."""

    def forward(self, parts: Mapping[str, torch.Tensor], scale: torch.Tensor) -> torch.Tensor:
        return (parts["zeta"] - parts["alpha"] * 10 + parts["mid"] * 100) * scale


def _check_same(result: Any, expected: Any) -> None:
    assert type(result) is type(expected)
    assert list(result) == list(expected)
    assert all(torch.equal(result[name], expected[name]) for name in expected)


@pytest.mark.parametrize("order", ORDERS, ids="-".join)
def test_outputs_of_the_model_are_in_the_order_of_the_dict(order: tuple[str, ...]) -> None:
    model = to_onnx(Results(order), (X,), output_names="auto")
    assert [output.name for output in model.graph.output] == list(order)
    outputs = run_onnx(model, {"x": X.numpy()})
    for name, value in zip(order, outputs, strict=True):
        np.testing.assert_array_equal(value.numpy(), _values(X)[name].numpy())


def _list_dict(items: Any) -> Any:
    return defaultdict(list, items)


@pytest.mark.parametrize(
    "kind", [dict, OrderedDict, _list_dict], ids=["dict", "ordered", "default"]
)
@pytest.mark.parametrize("order", ORDERS[:3], ids="-".join)
def test_a_program_gives_the_dict_of_eager(order: tuple[str, ...], kind: Any) -> None:
    module = Results(order, kind)
    _check_same(ortable.export(module, (X,))(X), module(X))


@pytest.mark.usefixtures("fresh_dynamo")
def test_compiled_models_that_differ_in_the_order_alone_keep_their_own() -> None:
    """Their graphs have the same nodes, so that a cache could confuse them."""
    for order in ORDERS[::2]:
        module = Results(order)
        _check_same(torch.compile(module, backend="ortable", fullgraph=True)(X), module(X))


@pytest.mark.usefixtures("fresh_dynamo")
def test_a_dict_within_a_dict() -> None:
    def model(x: torch.Tensor) -> dict[str, Any]:
        inner = {"b": x + 1, "a": [x * 2, {"d": x * 3, "c": x * 4}]}
        return {"y": inner, "x": x * 5}

    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> dict[str, Any]:
            return model(x)

    expected = model(X)
    proto = to_onnx(Model(), (X,), output_names="auto")
    names = [output.name for output in proto.graph.output]
    assert names == ["y_b", "y_a_0", "y_a_1_d", "y_a_1_c", "x_out"]
    for result in (ortable.export(Model(), (X,))(X), torch.compile(model, backend="ortable")(X)):
        assert [*result, *result["y"], *result["y"]["a"][1]] == ["y", "x", "b", "a", "d", "c"]
        torch.testing.assert_close(result, expected, rtol=0, atol=0)


@pytest.mark.usefixtures("fresh_dynamo")
@pytest.mark.parametrize("order", ORDERS[:3], ids="-".join)
def test_a_call_may_give_the_keys_in_another_order(order: tuple[str, ...]) -> None:
    module, scale = Arguments(), torch.tensor(2.0)
    parts = {name: X + index for index, name in enumerate(order)}
    program = ortable.export(module, (parts, scale))
    compiled = torch.compile(module, backend="ortable", fullgraph=True)
    for items in itertools.permutations(parts.items()):
        expected = module(dict(items), scale)
        assert torch.equal(program(dict(items), scale), expected)
        assert torch.equal(compiled(dict(items), scale), expected)
