"""Quantized models of PT2E and torchao: export to the integer kernels of ONNX Runtime."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.ao.quantization.fx import _decomposed  # noqa: F401  (registers quantized_decomposed)

import ortable
from ortable.exporter.reporting.calibration import _shrink_moment

from .helpers import run_onnx
from .quantized_models import Block, ConvNet, Mlp, converted, operators, recipe, results

Q = torch.ops.quantized_decomposed
IMAGE, ROWS, TOKENS = (2, 3, 16, 16), (4, 64), (2, 5, 64)


def difference(actual: torch.Tensor, expected: torch.Tensor) -> float:
    return (actual - expected).abs().max().item()


# -- PT2E


def test_a_network_of_convolutions_runs_in_integers(tmp_path: Path) -> None:
    x = torch.randn(IMAGE, generator=torch.Generator().manual_seed(1))
    module = converted(ConvNet(), x, recipe("xnnpack"))
    model = ortable.to_onnx(module, (x,))
    plain, optimized, counts = results(model, (x,), tmp_path)
    assert counts["QLinearConv"] == 2 and counts["QLinearAdd"] == 1 and counts["QGemm"] == 1, counts
    assert not {"Conv", "FusedConv", "Gemm", "Add"} & set(counts)
    expected, step = module(x), _last_scale(module)
    assert difference(plain, expected) < 1.01 * step
    assert difference(optimized, expected) < 1.01 * step


def _last_scale(module: nn.Module) -> float:
    """Return the scale of the last dequantize node."""
    nodes = [n for n in module.graph.nodes if "dequantize_per_tensor" in str(n.target)]
    return nodes[-1].args[1]


def test_unsigned_activations_of_the_x86_recipe(tmp_path: Path) -> None:
    x = torch.randn(IMAGE, generator=torch.Generator().manual_seed(1))
    module = converted(ConvNet(), x, recipe("x86"))
    model = ortable.to_onnx(module, (x,))
    plain, optimized, counts = results(model, (x,), tmp_path)
    # the recipe leaves the residual sum and the second convolution in float32
    assert counts["QLinearConv"] == 1 and counts["QGemm"] == 1, counts
    assert difference(plain, module(x)) < 1e-5
    assert difference(optimized, module(x)) < 2e-2


@pytest.mark.parametrize("shape", [ROWS, TOKENS])
@pytest.mark.parametrize("name", ["x86", "xnnpack"])
def test_linear_layers_run_in_integers(name: str, shape: tuple[int, ...], tmp_path: Path) -> None:
    x = torch.randn(shape, generator=torch.Generator().manual_seed(1))
    module = converted(Mlp(), x, recipe(name))
    model = ortable.to_onnx(module, (x,))
    plain, optimized, counts = results(model, (x,), tmp_path)
    assert counts["QGemm"] == 2 and not {"Gemm", "FusedGemm", "MatMul"} & set(counts), counts
    step = _last_scale(module) if name == "xnnpack" else 1e-5
    assert difference(plain, module(x)) < 1.01 * step
    assert difference(optimized, module(x)) < (1.01 * step if name == "xnnpack" else 2e-2)


@pytest.mark.parametrize("name", ["x86", "xnnpack"])
def test_an_encoder_layer_with_dynamic_sizes(name: str, tmp_path: Path) -> None:
    x = torch.randn(TOKENS, generator=torch.Generator().manual_seed(1))
    sizes = ({0: torch.export.Dim("batch", max=64), 1: torch.export.Dim("length", max=64)},)
    module = converted(Block(), x, recipe(name), sizes)
    model = ortable.to_onnx(module, (x,), dynamic_shapes=sizes)
    for shape in (TOKENS, (3, 7, 64)):
        example = torch.randn(shape, generator=torch.Generator().manual_seed(2))
        plain, optimized, counts = results(model, (example,), tmp_path)
        assert counts["QGemm"] == 6 and not {"Gemm", "FusedGemm"} & set(counts), counts
        expected = module(example)
        # a code that is off by one changes its row through the layer norms
        assert (plain - expected).abs().mean() < 1e-3
        assert (optimized - expected).abs().mean() < 5e-3 and difference(optimized, expected) < 0.2


@pytest.mark.parametrize("shape", [ROWS, TOKENS])
def test_activations_quantized_while_running(shape: tuple[int, ...], tmp_path: Path) -> None:
    x = torch.randn(shape, generator=torch.Generator().manual_seed(1))
    for name in ("x86", "xnnpack"):
        module = converted(Mlp(), x, recipe(name, is_dynamic=True))
        for target in (None, "onnxruntime"):
            model = ortable.to_onnx(module, (x,), target=target)
            plain, optimized, counts = results(model, (x,), tmp_path)
            assert counts["QGemm"] == 2 and not {"Gemm", "MatMul", "MatMulNBits"} & set(counts)
            dynamic_count = counts.get("DynamicQuantizeLinear", 0)
            assert dynamic_count == (2 if target and name == "x86" else 0)
            assert difference(plain, module(x)) < 2e-2
            assert difference(optimized, module(x)) < 2e-2


def test_a_quantized_model_is_a_quarter_of_the_size() -> None:
    x = torch.randn(ROWS)
    float_size = ortable.to_onnx(nn.Linear(64, 1024), (x,)).ByteSize()
    module = converted(nn.Linear(64, 1024), x, recipe("xnnpack"))
    model = ortable.to_onnx(module, (x,))
    weights = [tensor for tensor in model.graph.initializer if len(tensor.dims) == 2]
    assert [weight.data_type for weight in weights] == [onnx.TensorProto.UINT8]
    assert model.ByteSize() < 0.32 * float_size  # scales and bias remain floats


def test_without_rewrites_codes_stay_as_they_are() -> None:
    x = torch.randn(ROWS)
    module = converted(Mlp(), x, recipe("xnnpack"))
    plain, rewritten = (ortable.to_onnx(module, (x,), rewrites=r) for r in ("none", "default"))
    for model, dtype in ((plain, np.int8), (rewritten, np.uint8)):
        values = {init.name: onnx.numpy_helper.to_array(init) for init in model.graph.initializer}
        zeros = [n.input[2] for n in model.graph.node if n.op_type == "QuantizeLinear"]
        assert zeros and all(values[name].dtype == dtype for name in zeros)
    # ONNX Runtime converts activations to uint8, and without VNNI such products overflow
    config = {"session.x64quantprecision": "1"}
    outputs = run_onnx(plain, {"x": x.numpy()}, config)
    torch.testing.assert_close(outputs, [module(x)], atol=0.02, rtol=0)


@pytest.mark.parametrize("options", [{}, {"is_dynamic": True}])
def test_a_converted_model_through_torch_compile(options: dict[str, bool], tmp_path: Path) -> None:
    x = torch.randn(TOKENS, generator=torch.Generator().manual_seed(1))
    module = converted(Mlp(), x, recipe("x86", **options))
    path = tmp_path / "optimized.onnx"
    settings = {"session_options": {"optimized_model_filepath": str(path)}}
    compiled = torch.compile(module, backend="ortable", options=settings)
    with torch.no_grad():
        for _ in range(6):  # weights become constants after a few calls
            assert difference(compiled(x), module(x)) < 2e-2
    counts = operators(onnx.load(path, load_external_data=False))
    assert counts["QGemm"] == 2 and "Gemm" not in counts, counts


# -- exactness of codes


class Codes(nn.Module):
    """A model that returns the codes of its input."""

    def __init__(self, scale: float, zero: int, low: int, high: int, dtype: torch.dtype) -> None:
        super().__init__()
        self.settings = (scale, zero, low, high, dtype)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return Q.quantize_per_tensor(x, *self.settings)


@settings(max_examples=25, deadline=None)
@given(
    scale=st.floats(1e-4, 10.0, allow_subnormal=False),
    zero=st.integers(-128, 127),
    low=st.integers(-128, -1),
    high=st.integers(0, 127),
)
def test_codes_differ_by_one_at_most_and_only_at_a_border(
    scale: float, zero: int, low: int, high: int
) -> None:
    """ONNX divides by the scale; torch multiplies by its inverse."""
    zero = min(max(zero, low), high)
    module = Codes(scale, zero, low, high, torch.int8)
    border = (np.arange(-130, 130) + 0.5).astype(np.float32) * np.float32(scale)
    neighbors = [border]
    for direction in (np.float32(-np.inf), np.float32(np.inf)):
        neighbor = border
        for _ in range(4):
            neighbor = np.nextafter(neighbor, direction)
            neighbors.append(neighbor)
    x = torch.from_numpy(np.stack(neighbors))
    expected = module(x)
    (codes,) = run_onnx(ortable.to_onnx(module, (x,)), {"x": x.numpy()})
    distance = (codes.int() - expected.int()).abs()
    assert distance.max() <= 1
    # at most three of the nine numbers around a border have another code than in torch
    assert (distance > 0).sum(0).max() <= 3
    is_power_of_two = np.frexp(np.float32(scale))[0] == 0.5 and float(np.float32(scale)) == scale
    assert not is_power_of_two or distance.max() == 0


def test_codes_of_ordinary_numbers_are_those_of_torch() -> None:
    x = torch.randn(1_000_000, generator=torch.Generator().manual_seed(0))
    for scale in (0.013, 0.0301, 0.25):
        module = Codes(scale, 3, -128, 127, torch.int8)
        (codes,) = run_onnx(ortable.to_onnx(module, (x,)), {"x": x.numpy()})
        assert (codes != module(x)).float().mean() < 1e-5


def test_sixteen_bits_need_opset_21_and_are_exact_below() -> None:
    x = torch.randn(1000, generator=torch.Generator().manual_seed(0))
    module = Codes(1e-4, 0, -32768, 32767, torch.int16)
    for opset, op_type in ((18, "Clip"), (21, "QuantizeLinear")):
        model = ortable.to_onnx(module, (x,), target_opset=opset)
        assert op_type in operators(model)
        assert (run_onnx(model, {"x": x.numpy()})[0].int() - module(x).int()).abs().max() <= 1


# -- torchao's tensors


def make_quantized_mlp(config: str, **options: object) -> Mlp:
    import torchao.quantization as quantization

    torch.manual_seed(0)
    module = Mlp().eval()
    quantization.quantize_(module, getattr(quantization, config)(**options))
    return module


@pytest.mark.parametrize("shape", [ROWS, TOKENS])
@pytest.mark.parametrize(
    "config", ["Int8WeightOnlyConfig", "Int8DynamicActivationInt8WeightConfig"]
)
def test_int8_tensors_of_torchao(config: str, shape: tuple[int, ...], tmp_path: Path) -> None:
    x = torch.randn(shape, generator=torch.Generator().manual_seed(1))
    module = make_quantized_mlp(config)
    model = ortable.to_onnx(module, (x,))
    dtypes = {tensor.data_type for tensor in model.graph.initializer if len(tensor.dims) == 2}
    assert onnx.TensorProto.INT8 in dtypes
    plain, optimized, counts = results(model, (x,), tmp_path)
    assert counts.get("MatMulInteger", 0) == (2 if "Dynamic" in config else 0)
    assert difference(plain, module(x)) < 1e-5
    assert difference(optimized, module(x)) < (2e-2 if "Dynamic" in config else 1e-5)


@pytest.mark.parametrize("opset", [18, 21])
def test_groups_of_four_bits(opset: int, tmp_path: Path) -> None:
    import torchao.quantization as quantization

    groups = quantization.PerGroup(32)
    module = make_quantized_mlp("IntxWeightOnlyConfig", weight_dtype=torch.int4, granularity=groups)
    x = torch.randn(TOKENS, generator=torch.Generator().manual_seed(1))
    model = ortable.to_onnx(module, (x,), target_opset=opset)
    plain, optimized, _ = results(model, (x,), tmp_path)
    assert difference(plain, module(x)) < 1e-5 and difference(optimized, module(x)) < 1e-5
    large = [item for item in model.graph.initializer if math.prod(item.dims) == 128 * 64]
    dtypes = [item.data_type for item in large]
    assert dtypes == [onnx.TensorProto.INT4 if opset == 21 else onnx.TensorProto.INT8]


class _Grouped(nn.Module):
    def forward(self, x: torch.Tensor, scales: torch.Tensor, zeros: torch.Tensor) -> torch.Tensor:
        codes = Q.quantize_per_channel_group(x, scales, zeros, -8, 7, torch.int8, 128)
        dequantize_args = (-8, 7, torch.int8, 128, torch.float32)
        return Q.dequantize_per_channel_group(codes, scales, zeros, *dequantize_args)


@pytest.mark.parametrize("opset", [18, 21])
def test_a_row_of_dynamic_length_that_is_less_than_a_group(opset: int) -> None:
    def make_inputs(*sizes: int) -> tuple[torch.Tensor, ...]:
        x = torch.randn(sizes, generator=torch.Generator().manual_seed(1))
        scales, zeros = torch.tensor([[0.25], [0.5], [1]]), torch.tensor([[1], [-2], [0]])
        return x, scales[: len(x)], zeros[: len(x)].int()

    rows, length = torch.export.Dim("rows"), torch.export.Dim("length", min=2, max=127)
    sizes = ({0: rows, 1: length}, {0: rows}, {0: rows})
    exported = torch.export.export(_Grouped(), make_inputs(2, 4), dynamic_shapes=sizes)
    model = ortable.to_onnx(exported, target_opset=opset)
    for feeds in (make_inputs(2, 4), make_inputs(3, 127)):
        names = [value.name for value in model.graph.input]
        (result,) = run_onnx(model, {n: x.numpy() for n, x in zip(names, feeds, strict=True)})
        torch.testing.assert_close(result, _Grouped()(*feeds))


def test_weights_in_float8() -> None:
    module = make_quantized_mlp("Float8WeightOnlyConfig")
    x = torch.randn(ROWS, generator=torch.Generator().manual_seed(1))
    model = ortable.to_onnx(module, (x,), target_opset=21)
    assert difference(run_onnx(model, {"x": x.numpy()})[0], module(x)) < 1e-5


# -- calibration


@pytest.mark.parametrize(("rows", "share"), [(62, 0.2), (12, 1), (3, 1)])
def test_fewer_rows_take_more_of_the_identity(rows: int, share: float) -> None:
    """Compare with the formula of Chen et al. 2010: 18.75 / (1.5 * (rows + 0.5)), at most 1."""
    moment = np.diag(np.array([4, 2, 1, 1], np.float32))
    expected = (1 - share) * moment / 2 + share * np.eye(4)
    np.testing.assert_allclose(_shrink_moment(moment, rows), expected, rtol=1e-5)
    assert not _shrink_moment(0 * moment, rows).any()


# -- refusals


def test_packed_modules_are_refused_with_the_way_out() -> None:
    module = torch.ao.quantization.quantize_dynamic(
        nn.Sequential(nn.Linear(8, 8)).eval(), {nn.Linear}, dtype=torch.qint8
    )
    with pytest.raises(ortable.errors.ExportError, match="PT2E"):
        ortable.to_onnx(module, (torch.randn(2, 8),))
