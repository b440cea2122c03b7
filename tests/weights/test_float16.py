"""`weights="float16"`: accuracy, casts, what stays in float32, and refusals."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
import onnxruntime
import pytest
import torch

import ortable
from ortable.errors import ExportError, OptionError

from .models import NAMES, build, distance, operators

pytestmark = pytest.mark.alternates(parts=3)

HALF = onnx.TensorProto.FLOAT16


def run(program: ortable.OnnxProgram, args, kwargs=None) -> torch.Tensor:
    result = program(*args, **(kwargs or {}))
    result = next(iter(result.values())) if isinstance(result, dict) else result
    return result[0] if isinstance(result, tuple) else result


def export(model: torch.nn.Module, *args: torch.Tensor, weights="float16", **keywords):
    """Return the program, its report, and its distance from eager."""
    program = ortable.export(model.eval(), args, weights=weights, **keywords)
    with torch.no_grad():
        expected = model(*args)
    return program, program.report.weights, distance(run(program, args).float(), expected)


def new_cast_pairs(proto: onnx.ModelProto) -> list[str]:
    """Return the casts that read a cast between float16 and float32."""
    casts = {node.output[0]: node.input[0] for node in proto.graph.node if node.op_type == "Cast"}
    return [name for name, source in casts.items() if "float" in source and source in casts]


@pytest.mark.parametrize("target", [None, "onnxruntime"])
@pytest.mark.parametrize("name", NAMES)
def test_language_and_vision_models(name: str, target) -> None:
    model, kwargs = build(name)
    program = ortable.export(model, (), kwargs, target=target, weights="float16")
    with torch.no_grad():
        expected = model(**kwargs)[0]
    result, report = run(program, (), kwargs), program.report.weights
    error = distance(result, expected)
    assert result.dtype == torch.float32
    assert error < 1e-3
    assert report.error == pytest.approx(error, rel=0.1)
    assert {weight.bits for weight in report.weights} == {16}
    assert all(0 < weight.layer_error < 2e-3 for weight in report.weights if weight.layer_error)
    assert report.bytes_after < 0.52 * report.bytes_before
    assert not new_cast_pairs(program.model_proto)


@pytest.mark.parametrize("kind", ["int4", "int8"])
@pytest.mark.parametrize("target", [None, "onnxruntime"])
def test_codes_with_float16_for_the_rest(target, kind) -> None:
    model, kwargs = build("llama")
    errors, sizes = [], []
    for weights in (kind, f"{kind}+float16"):
        program = ortable.export(model, (), kwargs, target=target, weights=weights)
        errors.append(program.report.weights.error)
        sizes.append(program.report.weights.bytes_after)
    assert errors[1] == pytest.approx(errors[0], rel=0.1)
    assert sizes[1] < 0.97 * sizes[0]
    types = {item.name: item.data_type for item in program.model_proto.graph.initializer}
    scales = {dtype for name, dtype in types.items() if "_scales" in name or "_packed" in name}
    assert HALF in scales and onnx.TensorProto.FLOAT not in scales


@pytest.mark.parametrize("opset", [13, 15, 17, 18, 21, 23, 26])
def test_opsets(opset: int) -> None:
    layers = torch.nn.Linear(16, 32), torch.nn.LayerNorm(32), torch.nn.GELU(), torch.nn.Softmax(-1)
    program, _, error = export(torch.nn.Sequential(*layers), torch.randn(4, 16), target_opset=opset)
    onnx.checker.check_model(program.model_proto, full_check=True)
    assert program.model_proto.opset_import[0].version == opset
    assert error < 2e-3


class Function(torch.nn.Module):
    """A module of a function, with a linear layer before it."""

    def __init__(self, function: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer = torch.nn.Linear(8, 8)
        self.function = function

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.function(self.layer(x))


def norm(x: torch.Tensor) -> torch.Tensor:
    return x * 400 * torch.rsqrt((x * 400).pow(2).mean(-1, keepdim=True) + 1e-6)


def masked(low: float, both: bool) -> Callable[[torch.Tensor], torch.Tensor]:
    def attend(x: torch.Tensor) -> torch.Tensor:
        later = torch.ones(x.shape[0], x.shape[0]).triu(1).bool()
        mask = torch.zeros(x.shape[0], x.shape[0]).masked_fill(later, low)
        scores = x @ x.T + mask
        scores = scores + mask if both else scores
        return torch.softmax(scores, -1) @ x

    return attend


LOWEST = torch.finfo(torch.float32).min


@pytest.mark.parametrize(
    ("function", "kept"),
    [
        (norm, {"Mul", "ReduceMean", "Add"}),
        (lambda x: (x * 1e6).tanh() * 1e-6, {"Mul", "Tanh"}),  # overflow, constants that vanish
        (lambda x: (x * 30000).sin(), {"Sin", "Mul"}),
        (lambda x: x * torch.arange(3000, 3005).float()[:, None].cos(), set()),
        (masked(LOWEST, False), set()),
        (masked(-1e9, True), set()),
        (masked(-torch.inf, True), set()),
    ],
)
def test_numbers_that_float16_lacks(function, kept) -> None:
    options = ortable.ExportOptions(constant_folding=False)
    _, report, error = export(Function(function), torch.randn(5, 8), export_options=options)
    assert error < (0.2 if kept == {"Sin", "Mul"} else 3e-3)
    assert kept <= {op for op, _, _ in report.float32_nodes}
    if "Softmax" not in kept:
        assert all(op != "Softmax" for op, _, _ in report.float32_nodes)


def test_rows_that_are_all_masked_are_not_nan() -> None:
    class Attention(torch.nn.Module):
        def forward(self, x: torch.Tensor, keep: torch.Tensor) -> torch.Tensor:
            mask = (1.0 - keep.float()) * LOWEST
            return torch.softmax(x @ x.T + mask, -1) @ x

    keep = torch.tensor([[1, 1, 0], [0, 0, 0], [1, 1, 1]])
    program, _, _ = export(Attention(), torch.randn(3, 8), keep)
    assert run(program, (torch.randn(3, 8) * 30, keep)).isfinite().all()


def test_what_the_caller_keeps() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 8))
    x = torch.randn(4, 64)
    weights = {"kind": "float16", "exclude": ["0.*"], "keep_float32": ["Relu"]}
    program, report, _ = export(model, x, weights=weights)
    assert {weight.name: weight.bits for weight in report.weights} == {
        "0.weight": 32, "2.weight": 16
    }  # fmt: skip
    assert operators(program.model_proto)["Cast"] == 2
    assert "requested" in str(report)
    _, limited, error = export(model, x, max_error=1e-4)
    assert error <= 1e-4
    assert len(limited.rounded) < 2
    with pytest.raises(ExportError, match="cannot be met"):
        export(model, x, weights="int4+float16", max_error=0.0)


def test_inputs_and_outputs_of_float16(tmp_path) -> None:
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU())
    x = torch.randn(4, 8)
    weights = ortable.WeightOptions("float16", keep_io=False)
    program, _, error = export(model, x, weights=weights)
    assert error < 2e-3
    values = [*program.model_proto.graph.input, *program.model_proto.graph.output]
    assert {value.type.tensor_type.elem_type for value in values} == {HALF}
    assert not operators(program.model_proto)["Cast"]


def test_branches_stay_and_large_models_are_rounded_when_they_are_written(tmp_path) -> None:
    class Branch(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(64, 128)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = self.layer(x)
            return torch.cond(x.sum() > 0, lambda y: y.exp(), lambda y: y * 2, (y,))

    model, x = Branch().eval(), torch.randn(3, 64)
    path = tmp_path / "model.onnx"
    ortable.to_onnx(model, (x,), weights="float16", large_model=True).save(path)
    assert (tmp_path / "model.onnx.data").stat().st_size == 64 * 128 * 2
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    (result,) = session.run(None, {"x": x.numpy()})
    assert result.dtype == np.float32
    with torch.no_grad():
        assert distance(torch.from_numpy(result), model(x)) < 2e-3


@pytest.mark.parametrize(
    ("weights", "error", "message"),
    [
        ({"kind": "float16", "group_size": 64}, OptionError, "group_size needs kind 'int4'"),
        ({"kind": "int4", "keep_io": False}, OptionError, "keep_io needs rest 'float16'"),
        ({"kind": "float16", "rest": "float32"}, OptionError, "needs rest 'float16'"),
        ("float16+int4", OptionError, "'int4\\+float16'"),
    ],
)
def test_what_contradicts_itself_is_refused(weights, error, message) -> None:
    with pytest.raises(error, match=message):
        ortable.to_onnx(torch.nn.Linear(8, 8), (torch.randn(2, 8),), weights=weights)


def test_other_models_and_compile_are_refused() -> None:
    layer, x = torch.nn.Linear(16, 16), torch.randn(2, 16)
    for dtype in (torch.float64, torch.bfloat16):
        with pytest.raises(ExportError, match=r"call model\.float\(\) first"):
            ortable.to_onnx(layer.to(dtype), (x.to(dtype),), weights="float16")
    with pytest.raises(OptionError, match="keep_io=False makes float16 outputs"):
        weights = {"kind": "float16", "keep_io": False}
        ortable.to_onnx(layer.float(), (x,), weights=weights, validate=0.1)
    with pytest.raises(Exception, match="float16 is for exports"):
        torch.compile(layer, backend="ortable", options={"weights": "float16"})(x)


def test_a_float16_model_keeps_no_casts() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 4))
    x = torch.randn(2, 8).half()
    program = ortable.export(model.half().eval(), (x,), weights="float16")
    assert not operators(program.model_proto)["Cast"]
    with torch.no_grad():
        assert distance(run(program, (x,)), model(x)) < 2e-3
