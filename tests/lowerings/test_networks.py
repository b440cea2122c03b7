"""Operators of networks: unused results, opsets, dynamic sizes and random numbers."""

from __future__ import annotations

import copy

import numpy as np
import onnx
import pytest
import torch

import ortable
from ortable.errors import OrtableError
from tests.onnx_runs import run

DYNAMIC = torch.export.Dim.DYNAMIC


def _model_and_ops(
    module: torch.nn.Module, *args: torch.Tensor, **options: object
) -> tuple[object, list[str]]:
    model = ortable.to_onnx(copy.deepcopy(module), args, **options)
    proto = getattr(model, "model_proto", model)
    return proto, [node.op_type for node in proto.graph.node]


class _FirstResult(torch.nn.Module):
    """Return the first result of a function or module."""

    def __init__(self, inner: object) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(x)[0]


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
def test_recurrent_networks_take_another_batch(kind: str) -> None:
    inner = getattr(torch.nn, kind)(3, 4, 2, batch_first=True, bidirectional=True)
    module = _FirstResult(inner).eval()
    proto, _ = _model_and_ops(module, torch.randn(2, 5, 3), dynamic_shapes=({0: DYNAMIC},))
    x = torch.randn(4, 5, 3)
    np.testing.assert_allclose(run(proto, x)[0], module(x).detach(), rtol=1e-4, atol=1e-5)


def test_indices_that_nobody_reads_cost_no_node() -> None:
    module = _FirstResult(lambda x: torch.ops.aten.max_pool2d_with_indices(x, [2, 2]))
    proto, ops = _model_and_ops(module, torch.randn(1, 2, 6, 6))
    # the second MaxPool finds NaN, which the first would skip, and windows of -inf only
    nan_mask = ["IsNaN", "Cast", "IsInf", "Cast", "Sub"]
    assert ops == ["MaxPool", *nan_mask, "MaxPool", "Less", "Where", "Greater", "Where"]
    assert len(proto.graph.node[0].output) == 1


@pytest.mark.parametrize("opset", [18, 26])
def test_shapes_of_pools_whose_last_window_would_start_in_the_padding_are_what_onnx_infers(
    opset: int,
) -> None:
    """Before opset 22 ONNX counts such a window, and ONNX Runtime rejected the inferred shape."""
    x = torch.rand(1, 2, 5, 6, 5)
    module = _FirstResult(lambda x: torch.nn.functional.max_pool3d(x, 2, 3, 1, ceil_mode=True))
    model, _ = _model_and_ops(module, x, target_opset=opset)
    onnx.shape_inference.infer_shapes(model, strict_mode=True)
    np.testing.assert_array_equal(run(model, x)[0], module(x).numpy())


def test_gemm_reads_transposed_matrices_the_other_way_round() -> None:
    a, b, c = torch.randn(3, 2), torch.randn(4, 3), torch.randn(4)
    module = _FirstResult(lambda a: (torch.addmm(c, a.t(), b.t()), torch.mm(a.t(), b.t())))
    proto, ops = _model_and_ops(module, a)
    assert ops == ["Gemm"]
    assert np.allclose(run(proto, a)[0], module(a).numpy(), atol=1e-5)


def test_values_alone_of_a_maximum_need_no_index() -> None:
    maximum = _FirstResult(lambda x: x.max(dim=1))
    _, ops = _model_and_ops(maximum, torch.randint(0, 9, (3, 4), dtype=torch.int32))
    assert ops == ["ReduceMax"]
    # ONNX Runtime's ReduceMax of int64 is wrong for numbers that float64 cannot represent
    _, ops = _model_and_ops(maximum, torch.randint(0, 9, (3, 4)))
    assert ops == ["TopK", "Squeeze"]


def test_adaptive_maximum_without_indices_takes_uneven_regions() -> None:
    module = _FirstResult(lambda x: torch.ops.aten.adaptive_max_pool2d(x, [3, 2]))
    x = torch.randn(1, 2, 7, 5)
    proto, _ = _model_and_ops(module, x)
    assert np.array_equal(run(proto, x)[0], module(x).numpy())


@pytest.mark.parametrize(("opset", "used"), [(18, False), (23, True)])
def test_rms_norm_is_one_node_where_onnx_has_it(opset: int, used: bool) -> None:
    _, ops = _model_and_ops(torch.nn.RMSNorm(4), torch.randn(2, 4), target_opset=opset)
    assert ("RMSNormalization" in ops) == used


@pytest.mark.parametrize(("opset", "used"), [(18, False), (26, True)])
def test_cumprod_is_one_node_where_onnx_has_it(opset: int, used: bool) -> None:
    class Product(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.cumprod(1)

    _, ops = _model_and_ops(Product(), torch.randn(2, 5), target_opset=opset)
    assert ("CumProd" in ops) == used


def test_exported_dropout_in_training_draws_in_onnx_and_is_refused_for_the_backend() -> None:
    module = torch.nn.Dropout(0.5).train()
    x = torch.ones(4, 100)
    proto, ops = _model_and_ops(module, x)
    assert "Dropout" in ops
    assert set(np.unique(run(proto, x)[0])) == {0.0, 2.0}
    with pytest.raises(OrtableError, match="manual_seed"):
        _model_and_ops(module, x, target="onnxruntime")


@pytest.mark.parametrize("p", [0.2, 0.5])
def test_exported_alpha_dropout_keeps_or_drops_as_its_paper_says(p: float) -> None:
    """Each element is ``a * x + b`` or ``a * dropped + b``, in eager mode and in the model."""
    x, dropped = torch.linspace(-2, 2, 400).reshape(4, 100), -1.7580993408473766
    a = ((1 - p) * (1 + p * dropped**2)) ** -0.5
    b = -a * p * dropped
    module = torch.nn.AlphaDropout(p).train()
    proto, _ = _model_and_ops(module, x)
    for result in (module(x), run(proto, x)[0]):
        is_kept = torch.isclose(result, a * x + b, atol=1e-5)
        assert torch.isclose(result[~is_kept], torch.tensor(a * dropped + b), atol=1e-5).all()
        assert abs(is_kept.float().mean() - (1 - p)) < 0.15


def test_batch_norm_in_training_returns_its_new_statistics() -> None:
    module = torch.nn.BatchNorm2d(3).train()
    x = torch.randn(4, 3, 5, 5)
    proto, _ = _model_and_ops(module, x)
    results = run(proto, x)
    expected = module(x)
    for statistic in (expected, module.running_mean, module.running_var):
        assert statistic is not None
        assert any(
            result.shape == tuple(statistic.shape)
            and np.allclose(result, statistic.detach().numpy(), rtol=1e-4, atol=1e-5)
            for result in results
        )
