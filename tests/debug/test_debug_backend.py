"""onnx_debug_backend: the graphs of the fast backend, run node by node, with what happens
printed."""

from __future__ import annotations

import pytest
import torch

from ortable import onnx_debug_backend

pytestmark = pytest.mark.usefixtures("fresh_dynamo")


def compiled(fn, **options):
    return torch.compile(
        fn, backend=lambda gm, args: onnx_debug_backend(gm, args, **options), fullgraph=True
    )


def test_results_equal_eager():
    x, w = torch.randn(3, 4), torch.randn(4, 2)
    torch.testing.assert_close(
        compiled(lambda x, w: torch.relu(x @ w) + 1)(x, w), torch.relu(x @ w) + 1
    )


def test_nodes_and_results_are_printed(capsys):
    compiled(lambda x: torch.relu(x) * 2, verbose=1)(torch.ones(3))
    out = capsys.readouterr().out
    assert "Relu(input0)" in out and " + " not in out.replace("[ortable]", "")
    torch._dynamo.reset()
    compiled(lambda x: torch.relu(x) * 2, verbose=2)(torch.ones(3))
    assert " + output_0" in capsys.readouterr().out


def test_bool_and_integer_results():
    def fn(x):
        return x > 0, x + 1

    x = torch.tensor([-1, 0, 2])
    for a, b in zip(compiled(fn)(x), fn(x), strict=True):
        assert a.dtype is b.dtype
        torch.testing.assert_close(a, b)


def test_results_do_not_alias_the_arguments():
    x = torch.ones(3)
    result = compiled(lambda x: x.clone())(x)
    result.zero_()
    torch.testing.assert_close(x, torch.ones(3))
