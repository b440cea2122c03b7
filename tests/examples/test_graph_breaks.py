"""Functions with data-dependent control flow: three graphs each, all of them through ONNX
Runtime."""

from __future__ import annotations

import pytest
import torch

from ortable import onnx_custom_backend

pytestmark = pytest.mark.usefixtures("fresh_dynamo")


def toy_example(a, b):
    x = a / (torch.abs(a) + 1)
    if b.sum() < 0:
        b = b * -1
    return x * b


def bar(a, b):
    x = a / (torch.abs(a) + 1)
    if b.sum() < 0:
        b = b * -1
    return x * b


@pytest.mark.parametrize("dynamic", [None, False, True])
@pytest.mark.parametrize("fn", [toy_example, bar])
def test_three_graphs(fn, dynamic):
    storage = {}
    compiled = torch.compile(
        fn,
        backend=lambda gm, args: onnx_custom_backend(gm, args, storage=storage),
        dynamic=dynamic,
    )
    a, b = torch.randn(10), torch.rand(10)
    for sign in (1, -1, 1, -1):
        torch.testing.assert_close(compiled(a, sign * b), fn(a, sign * b))
    assert len(storage["instance"]) == 3


def test_many_random_calls():
    storage = {}

    @torch.compile(backend=lambda gm, args: onnx_custom_backend(gm, args, storage=storage))
    def compiled(a, b):
        x = a / (torch.abs(a) + 1)
        if b.sum() < 0:
            b = b * -1
        return x * b

    for _ in range(100):
        a, b = torch.randn(10), torch.randn(10)
        torch.testing.assert_close(compiled(a, b), toy_example(a, b))
    assert len(storage["instance"]) == 3


def test_the_first_graph_returns_a_bool():
    storage = {}
    compiled = torch.compile(
        bar, backend=lambda gm, args: onnx_custom_backend(gm, args, storage=storage)
    )
    compiled(torch.randn(10), torch.rand(10))
    types = [node.op_type for node in storage["instance"][0]["onnx"].graph.node]
    assert "Abs" in types and "Div" in types and "ReduceSum" in types
