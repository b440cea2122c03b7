"""Every name in the tables of torch functions and methods exists, with its operator's arguments.

Graphs of torch.fx.symbolic_trace, which have no metadata, equal eager.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable
from typing import Any

import pytest
import torch

from ortable import dtypes
from ortable.builder import GraphBuilder
from ortable.errors import UnsupportedCase
from ortable.interpreter.calls import qualified_name
from ortable.interpreter.interpreter import DynamoInterpreter
from ortable.testing import entries as harness
from ortable.testing.entries import run_onnx
from ortable_generated.aten.dispatch import CALLABLES, METHODS

F = torch.nn.functional
# Arguments of Python functions that ATen lacks; torch's overload resolution refuses them.
PYTHON_ONLY = {"_stacklevel", "inplace", "return_indices", "out", "training"}
ATEN_NAMES = {
    "input": "self",
    "tensor": "self",
    "split_size_or_sections": "split_size",
    "training": "train",
}


def _packet(key: str) -> Any:
    return getattr(torch.ops.aten, key.removeprefix("aten::").partition(".")[0])


def _schemas(key: str) -> list[list[str]]:
    packet = _packet(key)
    return [
        [a.name for a in getattr(packet, name)._schema.arguments] for name in packet.overloads()
    ]


MODULES = sorted({name.rpartition(".")[0] for name in CALLABLES})


def _callables(module: str) -> list[str]:
    return sorted(name for name in CALLABLES if name.rpartition(".")[0] == module)


@pytest.mark.parametrize("module", MODULES)
def test_a_callable_is_what_the_interpreter_calls_it(module: str) -> None:
    for name in _callables(module):
        attribute = name.rpartition(".")[2]
        function = getattr(importlib.import_module(module), attribute)
        full_name = qualified_name(function)
        assert (
            full_name == name
            or getattr(importlib.import_module(full_name.rpartition(".")[0]), attribute) is function
        ), name
        assert _schemas(CALLABLES[name].packet), name


def test_a_method_of_tensors_means_an_operator() -> None:
    for name in METHODS:
        assert callable(getattr(torch.Tensor, name)), name
        assert _schemas(METHODS[name].packet), name


@pytest.mark.parametrize("module", MODULES)
def test_positional_arguments_stand_in_the_order_of_the_schema(module: str) -> None:
    """torch.nn.functional.embedding exchanges its arguments, which must not go unnoticed."""
    for name in _callables(module):
        _check_order(name)


def _check_order(name: str) -> None:
    module, _, attribute = name.rpartition(".")
    function = getattr(importlib.import_module(module), attribute)
    if module == "operator" or inspect.isbuiltin(function):
        return
    call = CALLABLES[name]
    names = [
        p.name
        for p in inspect.signature(function).parameters.values()
        if p.name not in PYTHON_ONLY - {"training"}
    ]
    expected = [
        ATEN_NAMES.get(arg, arg) for arg in names if arg not in ("args", "kwargs", "operands")
    ]
    assert call.pack or any(
        expected[: len(own_names)] == own_names[: len(expected)]
        for own_names in (
            [("self" if arg == "input" else arg) for arg in schema]
            for schema in _schemas(call.packet)
        )
    ), (name, expected, _schemas(call.packet))


@pytest.mark.parametrize("table", [CALLABLES, METHODS], ids=["callables", "methods"])
def test_pack_and_fixed_name_arguments_of_the_operator(table: dict[str, Any]) -> None:
    for name, call in table.items():
        schemas = _schemas(call.packet)
        assert call.pack is None or call.pack in schemas[0], name
        assert all(any(arg in schema for schema in schemas) for arg in call.fixed), name


@pytest.mark.parametrize(
    "name", ["bfloat16", "bool", "byte", "char", "double", "float", "half", "int", "long", "short"]
)
def test_the_methods_named_after_dtypes_cast_to_that_dtype(name: str) -> None:
    dtype = getattr(torch.zeros(1), name)().dtype
    assert METHODS[name].fixed == {"dtype": dtypes.from_torch(dtype)}


def check(function: Callable[..., Any], *args: torch.Tensor) -> None:
    """Trace ``function`` without metadata beyond its inputs, convert it, and compare with eager."""
    module = torch.fx.symbolic_trace(function)
    for node, value in zip(
        (n for n in module.graph.nodes if n.op == "placeholder"), args, strict=True
    ):
        node.meta["val"] = value
    builder = GraphBuilder(18)
    interpreter = DynamoInterpreter(builder)
    interpreter.run(module)
    builder.remove_unused()
    feeds = {
        r.name: value
        for r, value in zip(interpreter.inputs, args, strict=True)
        if r.name is not None
    }
    results = run_onnx(builder.to_onnx(), feeds)
    expected = function(*args)
    for result, expected_result in zip(
        results, expected if isinstance(expected, tuple) else (expected,), strict=True
    ):
        torch.testing.assert_close(result, expected_result, rtol=1e-4, atol=1e-5)


X = torch.arange(24.0).reshape(2, 3, 4) / 7 - 1
WEIGHT = torch.linspace(-1, 1, 20).reshape(5, 4)

CASES: dict[str, tuple[Callable[..., Any], tuple[torch.Tensor, ...]]] = {
    "view with varargs": (lambda x: x.view(2, 12), (X,)),
    "view with a list": (lambda x: x.view([2, 12]), (X,)),
    "reshape": (lambda x: torch.reshape(x, (4, -1)), (X,)),
    "permute": (lambda x: x.permute(2, 0, 1), (X,)),
    "transpose": (lambda x: x.transpose(0, -1).contiguous(), (X,)),
    "expand": (lambda x: x.unsqueeze(0).expand(3, -1, -1, -1), (X,)),
    "repeat": (lambda x: x.repeat(2, 1, 1), (X,)),
    "flatten": (lambda x: torch.flatten(x, 1), (X,)),
    "cat": (lambda x: torch.cat([x, x], dim=-1), (X,)),
    "stack": (lambda x: torch.stack((x, x)), (X,)),
    "split": (lambda x: torch.split(x, 3, dim=2)[1], (X,)),
    "split by sizes": (lambda x: x.split([1, 3], dim=-1)[1], (X,)),
    "chunk": (lambda x: x.chunk(2, dim=2)[0], (X,)),
    "unbind": (lambda x: torch.unbind(x, 1)[2], (X,)),
    "gather": (lambda x, i: torch.gather(x, 2, i), (X, torch.zeros(2, 3, 1, dtype=torch.int64))),
    "index_select": (lambda x, i: x.index_select(1, i), (X, torch.tensor([2, 0]))),
    "embedding": (lambda w, i: torch.embedding(w, i), (WEIGHT, torch.tensor([[1, 4]]))),
    "squeeze": (lambda x: x.unsqueeze(1).squeeze(1).squeeze(), (X,)),
    "flip and roll": (lambda x: torch.roll(x.flip(0, 2), (1,), (1,)), (X,)),
    "tril": (lambda x: torch.tril(x), (X,)),
    "pad": (lambda x: F.pad(x, (1, 2), value=3.0), (X,)),
    "sort": (lambda x: torch.sort(x, dim=1, descending=True)[0], (X,)),
    "topk": (lambda x: x.topk(2)[1], (X,)),
    "matmul": (lambda x, w: torch.matmul(x, w.t()), (X, WEIGHT)),
    "operator matmul": (lambda x, w: x @ w.t(), (X, WEIGHT)),
    "linear": (lambda x, w: F.linear(x, w), (X, WEIGHT)),
    "sum": (lambda x: x.sum(dim=-1, keepdim=True), (X,)),
    "mean": (lambda x: torch.mean(x, 1), (X,)),
    "relu": (lambda x: F.relu(x), (X,)),
    "operators": (lambda x: -(x * 2 + 1) / 3 - x, (X,)),
    "comparison": (lambda x: (x > 0).float(), (X,)),
    "softmax": (lambda x: torch.softmax(x, dim=-1), (X,)),
    "masked_fill": (lambda x: x.masked_fill(x < 0, 0.0), (X,)),
    "long": (lambda x: (x * 3).long(), (X,)),
    "sizes": (lambda x: x.view(x.size(0), -1), (X,)),
    "shape": (lambda x: x.reshape(x.shape[0] * x.shape[1], 4), (X,)),
    "scatter": (lambda x, i: x.scatter(2, i, 5.0), (X, torch.zeros(2, 3, 1, dtype=torch.int64))),
    "where": (lambda x: torch.where(x > 0, x, x * 2), (X,)),
    "einsum": (lambda x, w: torch.einsum("abc,dc->abd", x, w), (X, WEIGHT)),
    "max": (lambda x: torch.max(x, dim=1)[0], (X,)),
    "clamp": (lambda x: x.clamp(min=0.0, max=1.0), (X,)),
}


@pytest.mark.parametrize("title", CASES)
def test_a_traced_graph_without_metadata_equals_eager(title: str) -> None:
    function, args = CASES[title]
    check(function, *args)


class PoolModule(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.nn.functional.max_pool2d(x, 2)
        y = torch.nn.functional.softmax(y[:, :, 1:, None, 0], dim=1)
        return y[..., -1] + y.shape[1]


def test_python_indexing_and_arguments_that_only_python_has() -> None:
    x = torch.randn(2, 3, 8, 8)
    traced = torch.fx.symbolic_trace(PoolModule())
    next(iter(traced.graph.nodes)).meta["val"] = x
    builder = GraphBuilder(18)
    DynamoInterpreter(builder).run(traced)
    harness.compare_tensor(harness.run_onnx(builder.to_onnx(), {"x": x})[0], PoolModule()(x))


def test_an_argument_that_only_python_has_is_refused_when_it_would_change_the_result() -> None:
    traced = torch.fx.symbolic_trace(PoolModule())
    call = next(node for node in traced.graph.nodes if "return_indices" in node.kwargs)
    call.kwargs = {**call.kwargs, "return_indices": True}
    next(iter(traced.graph.nodes)).meta["val"] = torch.randn(1, 1, 4, 4)
    with pytest.raises(UnsupportedCase, match="return_indices"):
        DynamoInterpreter(GraphBuilder(18)).run(traced)
