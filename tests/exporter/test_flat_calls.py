"""Functionalization with custom containers, and with decompositions that add constants."""

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
    """A cache whose unflattening computes, as that of transformers' caches."""

    def __init__(self, keys: Any, values: Any) -> None:
        self.keys, self.values = keys, values


def _unflatten(children: Any, context: Any) -> Cache:
    empty = torch.tensor([])
    return Cache(torch.cat([empty, children[0]], dim=-2), children[1])


def _flatten_with_keys(cache: Cache) -> Any:
    children = [(pytree.GetAttrKey(name), value) for name, value in vars(cache).items()]
    return children, None


@pytest.fixture
def registered_cache() -> Any:
    pytree.register_pytree_node(
        Cache,
        lambda cache: (list(vars(cache).values()), None),
        _unflatten,
        flatten_with_keys_fn=_flatten_with_keys,
    )
    yield
    pytree._deregister_pytree_node(Cache)


class CacheMaker(torch.nn.Module):
    """A module that writes in place and returns a new cache."""

    def forward(self, x, *, bias, factor=2.0):
        y = x * factor
        y[:, 0].add_(1)
        return {"cache": Cache(x, y), "sum": x + bias}


class CacheReader(torch.nn.Module):
    """A module that writes into a result and an argument, and takes a cache."""

    def forward(self, x, cache, factor=2, *rest, named=None):
        y = cache.keys * factor
        y[:, 0].add_(1)
        x.add_(1)
        return y, rest[0] + named["bias"]


class Relu(torch.nn.Module):
    def forward(self, x):
        return x.relu()


@pytest.mark.parametrize("shapes", [None, {"x": {0: "rows"}, "bias": {0: "rows"}}])
def test_a_cache_that_the_model_makes(registered_cache: None, shapes: Any) -> None:
    model = to_onnx(CacheMaker(), (X,), {"bias": X + 1}, dynamic_shapes=shapes, output_names="auto")
    names = [value.name for value in model.graph.output]
    assert names == ["cache_0", "cache_1", "sum"]
    assert "Concat" not in [node.op_type for node in model.graph.node]
    assert_same(model, CacheMaker(), (X,), {"bias": X + 1})


def test_a_cache_among_the_arguments(registered_cache: None) -> None:
    args, kwargs = (X, Cache(X + 1, X + 3), 3, X + 2, X + 4), {"named": {"bias": X - 1}}
    model = to_onnx(CacheReader(), args, kwargs)
    names = [value.name for value in model.graph.input]
    assert names == ["x", "cache_keys", "cache_values", "rest_0", "rest_1", "named_bias"]
    assert [value.name for value in model.graph.output][2] == "x_mutated"
    results = run_onnx(model, feeds_of(model, args, kwargs))
    x, cache, factor, *rest = copy.deepcopy(args)
    expected = CacheReader()(x, cache, factor, *rest, **kwargs)
    for value, reference in zip(results, [*expected, x], strict=True):
        torch.testing.assert_close(value, reference)


def test_a_class_that_is_not_registered_any_more() -> None:
    """The class is registered during torch.export, and not during conversion."""
    pytree.register_pytree_node(Cache, lambda cache: (list(vars(cache).values()), None), _unflatten)
    try:
        program = torch.export.export(CacheMaker(), (X,), {"bias": X})
    finally:
        pytree._deregister_pytree_node(Cache)
    model = to_onnx(program)
    results = run_onnx(model, {"x": X.numpy(), "bias": X.numpy()})
    cache = CacheMaker()(X, bias=X)["cache"]
    torch.testing.assert_close(results[:2], [cache.keys, cache.values])


def test_a_constant_of_a_decomposition() -> None:
    table = {torch.ops.aten.relu.default: lambda x: torch.maximum(x, ZERO)}
    options = ExportOptions(decomposition_table=table)
    model = to_onnx(Relu(), (X - 0.5,), export_options=options)
    assert [node.op_type for node in model.graph.node] == ["Max"]
    assert_same(model, Relu(), (X - 0.5,))


def _program_state(program: ExportedProgram) -> tuple[Any, ...]:
    signature = program.module_call_graph[0].signature
    assert signature is not None
    specs = str(signature.in_spec), str(signature.out_spec), signature.forward_arg_names
    return *specs, program.example_inputs, dict(program.constants), str(program.graph)


def test_the_program_is_left_as_it_was() -> None:
    program = torch.export.export(Relu(), (X,))
    state = _program_state(program)
    decomposed = decompose_program(
        program, {torch.ops.aten.relu.default: lambda x: torch.maximum(x, ZERO)}
    )
    assert _program_state(program) == state
    assert _program_state(decomposed)[:4] == state[:4]
    torch.testing.assert_close(decomposed.module()(X - 0.5), (X - 0.5).relu())
    with pytest.raises(RuntimeError, match="no decomposition"):
        decompose_program(program, {torch.ops.aten.relu.default: _raise_error})
    assert _program_state(program) == state


def _raise_error(x: Any) -> Any:
    raise RuntimeError("no decomposition")
