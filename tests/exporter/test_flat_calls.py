"""Functionalisation of programs whose arguments and results are containers that compute when they
are made, and of decompositions that bring constants of their own."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch.export import ExportedProgram
from torch.utils import _pytree as pytree

from ortable import ExportOptions, to_onnx
from ortable.exporter.capture.functionalize import decompose_program

from .helpers import assert_same, feeds_of, run_onnx

X = torch.rand(4, 3)
ZERO = torch.tensor(0.0)


class Cache:
    """Made as transformers makes its caches: the first keys follow an empty tensor."""

    def __init__(self, keys: Any, values: Any) -> None:
        self.keys, self.values = keys, values


def _made(children: Any, context: Any) -> Cache:
    empty = torch.tensor([])
    return Cache(torch.cat([empty, children[0]], dim=-2), children[1])


def _with_keys(cache: Cache) -> Any:
    named = [(pytree.GetAttrKey(name), value) for name, value in vars(cache).items()]
    return named, None


@pytest.fixture
def registered() -> Any:
    pytree.register_pytree_node(
        Cache,
        lambda cache: (list(vars(cache).values()), None),
        _made,
        flatten_with_keys_fn=_with_keys,
    )
    yield
    pytree._deregister_pytree_node(Cache)


class Fills(torch.nn.Module):
    """Writes in place and returns a cache that it made."""

    def forward(self, x, *, bias, factor=2.0):
        y = x * factor
        y[:, 0].add_(1)
        return {"cache": Cache(x, y), "sum": x + bias}


class Reads(torch.nn.Module):
    """Writes in place, also into an argument, and takes a cache among other arguments."""

    def forward(self, x, cache, factor=2, *rest, named=None):
        y = cache.keys * factor
        y[:, 0].add_(1)
        x.add_(1)
        return y, rest[0] + named["bias"]


class Relu(torch.nn.Module):
    def forward(self, x):
        return x.relu()


@pytest.mark.parametrize("shapes", [None, {"x": {0: "rows"}, "bias": {0: "rows"}}])
def test_a_cache_that_the_model_makes(registered: None, shapes: Any) -> None:
    model = to_onnx(Fills(), (X,), {"bias": X + 1}, dynamic_shapes=shapes, output_names="auto")
    names = [value.name for value in model.graph.output]
    assert names == ["cache_0", "cache_1", "sum"]
    assert "Concat" not in [node.op_type for node in model.graph.node]
    assert_same(model, Fills(), (X,), {"bias": X + 1})


def test_a_cache_among_the_arguments(registered: None) -> None:
    args, kwargs = (X, Cache(X + 1, X), 3, X + 2, X), {"named": {"bias": X - 1}}
    model = to_onnx(Reads(), args, kwargs)
    names = [value.name for value in model.graph.input]
    assert names == ["x", "cache_keys", "cache_values", "rest_0", "rest_1", "named_bias"]
    assert [value.name for value in model.graph.output][2] == "x_mutated"
    got = run_onnx(model, feeds_of(model, args, kwargs))
    x, cache, factor, *rest = copy.deepcopy(args)
    expected = Reads()(x, cache, factor, *rest, **kwargs)
    for value, wanted in zip(got, [*expected, x], strict=True):
        torch.testing.assert_close(value, wanted)


def test_a_class_that_is_not_registered_any_more() -> None:
    """A program that was exported inside a region, converted outside of it."""
    pytree.register_pytree_node(Cache, lambda cache: (list(vars(cache).values()), None), _made)
    try:
        program = torch.export.export(Fills(), (X,), {"bias": X})
    finally:
        pytree._deregister_pytree_node(Cache)
    model = to_onnx(program)
    got = run_onnx(model, {"x": X.numpy(), "bias": X.numpy()})
    cache = Fills()(X, bias=X)["cache"]
    torch.testing.assert_close(got[:2], [cache.keys, cache.values])


def test_a_constant_of_a_decomposition() -> None:
    table = {torch.ops.aten.relu.default: lambda x: torch.maximum(x, ZERO)}
    options = ExportOptions(decomposition_table=table)
    model = to_onnx(Relu(), (X - 0.5,), export_options=options)
    assert [node.op_type for node in model.graph.node] == ["Max"]
    assert_same(model, Relu(), (X - 0.5,))


def _state(program: ExportedProgram) -> tuple[Any, ...]:
    signature = program.module_call_graph[0].signature
    assert signature is not None
    specs = str(signature.in_spec), str(signature.out_spec), signature.forward_arg_names
    return *specs, program.example_inputs, dict(program.constants), str(program.graph)


def test_the_program_is_left_as_it_was() -> None:
    program = torch.export.export(Relu(), (X,))
    before = _state(program)
    made = decompose_program(
        program, {torch.ops.aten.relu.default: lambda x: torch.maximum(x, ZERO)}
    )
    assert _state(program) == before
    assert _state(made)[:4] == before[:4]
    torch.testing.assert_close(made.module()(X - 0.5), (X - 0.5).relu())
    with pytest.raises(RuntimeError, match="no decomposition"):
        decompose_program(program, {torch.ops.aten.relu.default: _failing})
    assert _state(program) == before


def _failing(x: Any) -> Any:
    raise RuntimeError("no decomposition")
