"""Scales by least squares and codes by calibration, next to rounding to nearest."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
import torch
from onnx import numpy_helper

import ortable
from ortable.passes.code_search import CodedGroups, round_to_nearest, search_codes
from ortable.passes.error_feedback import quantize_with_feedback
from ortable.passes.weight_quantization import QuantizedTensor, WeightOptions, quantize_matrix
from tests.onnx_runs import run

RANDOM = np.random.default_rng(0)
KINDS = [(bits, symmetric) for bits in (4, 8) for symmetric in (True, False)]


def make_groups(size: int) -> np.ndarray:
    """Return groups [size, M] of many kinds."""
    normal = RANDOM.standard_normal((size, 40))
    outlier = RANDOM.standard_normal((size, 4))
    outlier[0] = [50, -50, 1e4, -1e4]
    groups = [
        normal, np.abs(normal), -np.abs(normal), normal**3, normal + 3, outlier,
        normal * 1e-30, normal * 1e-42, normal * 1e17, RANDOM.laplace(size=(size, 40)),
        np.zeros((size, 1)), np.ones((size, 1)), np.full((size, 1), -0.3),
        np.where(np.arange(size) == 3, 1.0, 0.0)[:, None], np.sign(normal),
    ]  # fmt: skip
    return np.concatenate(groups, 1).astype(np.float32)


def squared_errors(x: np.ndarray, coded: CodedGroups) -> np.ndarray:
    difference = coded.steps.astype(np.float64) * coded.scales - x
    return (difference**2).sum(0)


@pytest.mark.parametrize(("bits", "symmetric"), KINDS)
@pytest.mark.parametrize("size", [16, 128])
def test_no_group_is_worse_than_rounded_to_nearest(bits, symmetric, size) -> None:
    x = make_groups(size)
    found, nearest = (f(x, bits, symmetric) for f in (search_codes, round_to_nearest))
    errors, nearest_errors = squared_errors(x, found), squared_errors(x, nearest)
    assert (errors <= nearest_errors * (1 + 1e-5)).all()
    assert errors[:40].sum() < 0.97 * nearest_errors[:40].sum()
    codes = found.steps + found.zeros
    assert (codes == np.rint(codes)).all()
    assert codes.min() >= 0 and codes.max() < 1 << bits
    assert np.isfinite(found.scales).all()
    if symmetric:
        assert (found.zeros == 1 << (bits - 1)).all()


@pytest.mark.parametrize("symmetric", [True, False])
def test_the_search_is_near_the_best_of_all_scales_and_zero_points(symmetric) -> None:
    x = RANDOM.standard_normal((32, 200)).astype(np.float32)
    best = np.full(200, np.inf)
    for zero in (8,) if symmetric else range(16):
        for factor in np.linspace(0.02, 0.5, 100):
            scales = factor * np.abs(x).max(0)
            for sign in (1, -1):
                steps = np.clip(np.rint(sign * x / scales), -zero, 15 - zero) * sign
                best = np.minimum(best, ((steps * scales - x) ** 2).sum(0))
    errors = squared_errors(x, search_codes(x, 4, symmetric, np.ones_like(x)))
    assert errors.sum() < 1.04 * best.sum()


def test_important_numbers_are_more_exact() -> None:
    x = RANDOM.standard_normal((32, 100)).astype(np.float32)
    importance = np.where(np.arange(32) < 4, 100.0, 1.0).astype(np.float32)[:, None]
    found = search_codes(x, 4, False, importance)
    for rival in (round_to_nearest(x, 4, False), search_codes(x, 4, False)):
        assert found.squared_error(x, importance).sum() < rival.squared_error(x, importance).sum()


def make_moment(size: int, rows: int) -> np.ndarray:
    """Return the second moment of correlated inputs."""
    mixing = RANDOM.standard_normal((size // 4, size))
    inputs = RANDOM.standard_normal((rows, size // 4)) @ mixing
    inputs += 0.1 * RANDOM.standard_normal((rows, size))
    return (inputs.T @ inputs).astype(np.float32)


@pytest.mark.parametrize(("bits", "symmetric"), KINDS)
@pytest.mark.parametrize("rows", [3, 500])
def test_calibrated_rows_are_not_worse_than_rounded_to_nearest(bits, symmetric, rows) -> None:
    moment, size = make_moment(64, rows), 32
    weight = np.concatenate(
        [RANDOM.standard_normal((64, 30)), np.zeros((64, 1)), make_groups(64)[:, 160:164]], 1
    ).astype(np.float32)
    coded = quantize_with_feedback(weight, moment, bits, size, symmetric)
    hessian = moment / moment.diagonal().mean() + 0.01 * np.eye(64)

    def row_errors(groups: CodedGroups) -> np.ndarray:
        restored = (groups.steps * groups.scales).reshape(size, -1, 2)
        difference = restored.transpose(2, 0, 1).reshape(64, -1) - weight
        return (difference * (hessian @ difference)).sum(0)

    columns = weight.reshape(2, size, -1).transpose(1, 2, 0).reshape(size, -1)
    errors, nearest_errors = map(row_errors, (coded, round_to_nearest(columns, bits, symmetric)))
    assert (errors <= nearest_errors * (1 + 1e-4)).all()
    assert errors.sum() < (0.3 if rows == 500 else 0.6) * nearest_errors.sum()
    codes = coded.steps + coded.zeros
    assert codes.min() >= 0 and codes.max() < 1 << bits


def dequantize(quantized: QuantizedTensor, size: int) -> np.ndarray:
    codes = quantized.codes.astype(np.float32)
    scales = quantized.scales.repeat(size, 1)[:, : codes.shape[1]]
    if quantized.zeros is not None:
        codes -= quantized.zeros.astype(np.float32).repeat(size, 1)[:, : codes.shape[1]]
    return codes * scales


@pytest.mark.parametrize("inner", [64, 70])
@pytest.mark.parametrize("symmetric", [True, False])
def test_a_moment_chooses_codes(inner, symmetric) -> None:
    weight, moment = torch.randn(20, inner), make_moment(inner, 300)
    options = WeightOptions(symmetric=symmetric)
    plain, calibrated = (quantize_matrix(weight, options, 4, m) for m in (None, moment))
    assert calibrated.calibrated and not plain.calibrated
    differences = [dequantize(q, 32) - weight.numpy() for q in (plain, calibrated)]
    errors = [((d @ moment) * d).sum() for d in differences]
    assert errors[1] < 0.5 * errors[0]
    norm = np.linalg.norm(differences[1]) / weight.norm()
    assert calibrated.error == pytest.approx(float(norm), rel=1e-4)
    unused = quantize_matrix(weight, options, 4, np.zeros_like(moment))
    assert not unused.calibrated and np.array_equal(unused.scales, plain.scales)


@pytest.mark.parametrize("kind", ["int4", "int8"])
@pytest.mark.parametrize("symmetric", [True, False])
def test_a_file_has_the_codes_of_the_report_and_runs_with_them(kind, symmetric, tmp_path) -> None:
    """Unpack MatMulNBits' codes from a file; 8 bits round activations, so they are less close."""
    layer, x = torch.nn.Linear(96, 40, bias=False), torch.randn(5, 96)
    activations = "float32" if kind == "int4" else "int8"
    options = WeightOptions(kind, symmetric=symmetric, activations=activations)
    path = tmp_path / "model.onnx"
    _, builder = ortable.to_onnx(
        layer, (x,), target="onnxruntime", weights=options, filename=path, return_builder=True
    )
    model = onnx.load(path)
    (node,) = model.graph.node
    stored = {item.name: numpy_helper.to_array(item) for item in model.graph.initializer}
    codes, scales, *zeros = (stored[name] for name in node.input[1:] if name)
    bits = int(kind[3:])
    codes = unpack(codes.reshape(40, -1), bits)
    size = {"int4": 32, "int8": 64}[kind]  # codes of a scale
    count = -(-96 // size)
    middle = np.full((40, count), 1 << (bits - 1), np.float32)
    offsets = unpack(zeros[0].reshape(40, -1), bits)[:, :count] if zeros else middle
    restored = (codes - offsets.repeat(size, 1)) * scales.reshape(40, count).repeat(size, 1)
    restored = restored[:, :96]
    assert np.array_equal(restored, dequantize(quantize_matrix(layer.weight.data, options), size))
    error = np.linalg.norm(restored - layer.weight.detach().numpy()) / layer.weight.norm().item()
    (record,) = builder.record.weights.weights
    assert record.weight_error == pytest.approx(float(error), rel=1e-4)
    (result,) = run(model, x)
    tolerance = 1e-4 if kind == "int4" else 0.03
    torch.testing.assert_close(result, x @ torch.from_numpy(restored).T, atol=tolerance, rtol=0)


def unpack(values: np.ndarray, bits: int) -> np.ndarray:
    if bits == 4:
        values = np.stack([values & 15, values >> 4], -1).reshape(len(values), -1)
    return values.astype(np.float32)
