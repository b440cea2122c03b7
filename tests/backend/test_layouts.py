"""Memory layouts and chains of views, which are known before the graph runs."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx

from ortable import dims
from ortable.backend.lower.strides import (
    contiguous_strides,
    dense_order,
    has_gaps,
    inverse_permutation,
    with_strides,
)
from ortable.backend.lower.views import trace_views

S0, U0 = dims.make_symbol("s0"), dims.make_symbol("u0")


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_dense_order_makes_any_permutation_contiguous(order):
    tensor = torch.randn(2, 3, 4).permute(order)
    dense = dense_order(tensor.shape, tensor.stride())
    assert tensor.permute(dense).is_contiguous()
    restored = tensor.permute(dense).contiguous().permute(inverse_permutation(dense))
    assert restored.stride() == tensor.stride()


@pytest.mark.parametrize(
    "tensor",
    [
        torch.randn(4, 6)[:, ::2],
        torch.randn(4, 6)[:, :3],
        torch.randn(3, 1).expand(3, 4),
        torch.empty_strided((3,), (0,)),
    ],
)
def test_gaps_and_overlaps_are_not_dense(tensor):
    assert dense_order(tensor.shape, tensor.stride()) is None


@pytest.mark.parametrize(
    ("tensor", "gaps"),
    [
        (torch.randn(4, 6)[:, :3], True),
        (torch.randn(2, 5, 3, 4).permute(2, 0, 1, 3)[0], True),
        (torch.randn(2, 3, 4).permute(2, 0, 1), False),
        (torch.randn(3, 1).expand(3, 4), False),  # overlaps, and is smaller than a dense copy
        (torch.randn(4, 6)[:1, :6], False),
    ],
)
def test_gaps_alone(tensor, gaps):
    assert has_gaps(tensor) == gaps


@pytest.mark.parametrize("strides", [(2, 0, 1), (0, 0, 0), (1, 1, 1), (4, 2, 1), (6, 1, 2)])
def test_a_result_has_the_strides_of_a_tensor_whose_elements_share_memory(strides):
    """Elements that share memory are equal, as in torch's own result."""
    tensor = torch.randn(12).as_strided((2, 3, 2), strides)
    result = with_strides(tensor.contiguous(), strides)
    assert result.stride() == strides
    torch.testing.assert_close(result, tensor, rtol=0, atol=0)


@pytest.mark.parametrize("shape", [(), (0,), (1,), (2, 0, 3), (1, 1), (2, 1, 3)])
def test_contiguous_tensors_need_no_permutation(shape):
    tensor = torch.empty(shape)
    assert dense_order(tensor.shape, tensor.stride()) == tuple(range(len(shape)))
    assert contiguous_strides(shape) == tensor.stride()


def test_channels_last_is_dense():
    tensor = torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last)
    assert dense_order(tensor.shape, tensor.stride()) == (0, 2, 3, 1)


def test_symbolic_layouts():
    assert dense_order((S0, 10), (10, 1)) == (0, 1)
    assert dense_order((10, S0), (1, 10)) == (1, 0)
    assert dense_order((10, S0), (S0, 1)) == (0, 1)
    assert dense_order((10, S0), (dims.max_of(1, S0), 1)) == (0, 1)
    assert dense_order((S0, U0, S0), (dims.max_of(1, U0) * S0, S0, 1)) == (0, 1, 2)
    assert dense_order((S0, 10), (20, 1)) is None


def _trace(fn, *args):
    graph = make_fx(fn, tracing_mode="fake")(*args).graph
    output = next(node for node in graph.nodes if node.op == "output")
    return trace_views(output.args[0], lambda dim: True)


def test_chain_of_views_ends_at_the_computed_tensor():
    base, steps = _trace(lambda x: (x + 1).view(6, 4).t()[1:], torch.randn(2, 3, 4))
    assert base.target is torch.ops.aten.add.Tensor
    assert [str(s.op) for s in steps] == [
        "aten.view.default",
        "aten.permute.default",
        "aten.slice.Tensor",
    ]


def test_permutations_that_cancel_disappear():
    base, steps = _trace(lambda x: (x + 1).t().permute(1, 0), torch.randn(2, 3))
    assert base.target is torch.ops.aten.add.Tensor
    assert steps == ()


def test_parts_of_a_split_are_views():
    base, steps = _trace(lambda x: (x + 1).split(2)[1].unsqueeze(0), torch.randn(4, 3))
    assert base.target is torch.ops.aten.add.Tensor
    assert len(steps) == 3


def test_computed_tensor_has_no_steps():
    base, steps = _trace(lambda x: x.t() * 2, torch.randn(2, 3))
    assert base.target is torch.ops.aten.mul.Tensor
    assert steps == ()
