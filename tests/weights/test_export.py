"""`weights=` of to_onnx and export: nodes, distance from eager, reports and refusals."""

from __future__ import annotations

import json

import numpy as np
import onnx
import pytest
import torch

import ortable
from ortable.errors import ExportError, InputError, OptionError
from ortable.exporter.reporting.calibration import _shrink_moment

from .models import NAMES, WIDTH, build, count_products, distance, linears, operators

pytestmark = pytest.mark.alternates(parts=3)


def run(program: ortable.OnnxProgram, kwargs) -> torch.Tensor:
    outputs = program(**kwargs)
    return next(iter(outputs.values())) if isinstance(outputs, dict) else outputs[0]


@pytest.fixture(scope="module", params=NAMES)
def exported_model(request):
    """Return the name of a model, the model, its arguments, and its programs by kind of codes."""
    model, kwargs = build(request.param)
    programs = {
        kind: ortable.export(model, (), kwargs, target="onnxruntime", weights=kind)
        for kind in ("int4", "int8")
    }
    return request.param, model, kwargs, programs


@pytest.mark.alternates(parts=3)
def test_every_linear_layer_reads_codes(exported_model) -> None:
    name, model, _, programs = exported_model
    for program in programs.values():
        counts = operators(program.model_proto)
        assert count_products(program.model_proto) == linears(model)
        assert not counts["Gemm"]
        if name in ("llama", "gpt2"):  # in the others, positions are constants
            assert counts["GatherBlockQuantized"] == 1
        report = program.report.weights
        assert report is not None
        assert report.nodes["MatMulNBits"] == linears(model)
        assert all(weight.bits == int(report.options.kind[3:]) for weight in report.weights)


def test_the_certificate_is_what_the_model_does(exported_model) -> None:
    _, model, kwargs, programs = exported_model
    with torch.no_grad():
        expected = model(**kwargs)[0]
    for kind, program in programs.items():
        report = program.report.weights
        assert report is not None
        error = distance(run(program, kwargs), expected)
        assert report.outputs[0].error == pytest.approx(error, rel=0.01, abs=1e-6)
        assert error < {"int4": 0.3, "int8": 0.03}[kind]
        layers = [weight.layer_error for weight in report.weights]
        assert all(value is not None and 0 < value < error * 20 for value in layers)
        assert max(layers) < {"int4": 0.2, "int8": 0.02}[kind]


@pytest.mark.alternates(parts=2)
def test_files_are_smaller(exported_model) -> None:
    _, model, kwargs, programs = exported_model
    unquantized = ortable.export(model, (), kwargs, target="onnxruntime").model_proto
    float_bytes = sum(np.prod(tensor.dims) * 4 for tensor in unquantized.graph.initializer)
    for kind, program in programs.items():
        report = program.report.weights
        assert report is not None
        assert report.bytes_before == pytest.approx(float_bytes, rel=0.05)
        stored = sum(len(tensor.raw_data) for tensor in program.model_proto.graph.initializer)
        assert report.bytes_after == pytest.approx(stored, rel=0.05)
        rounded = sum(4 * outer * inner for outer, inner in (w.shape for w in report.rounded))
        assert stored - (float_bytes - rounded) < {"int4": 0.18, "int8": 0.31}[kind] * rounded


class Net(torch.nn.Module):
    """A model with two linear layers and a tied embedding."""

    def __init__(self) -> None:
        super().__init__()
        self.table = torch.nn.Embedding(48, WIDTH)
        self.up = torch.nn.Linear(WIDTH, 96)
        self.down = torch.nn.Linear(96, WIDTH, bias=False)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        hidden = self.down(torch.nn.functional.gelu(self.up(self.table(ids))))
        return torch.nn.functional.linear(hidden, self.table.weight)


IDS = torch.arange(6).reshape(2, 3) * 5


def net() -> Net:
    torch.manual_seed(0)
    return Net().eval()


@pytest.mark.parametrize("target", [None, "onnxruntime"])
@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("kind", ["int4", "int8"])
def test_standard_onnx_and_onnx_runtime(target, symmetric, kind) -> None:
    model = net()
    options = ortable.WeightOptions(kind, symmetric=symmetric)
    proto, builder = ortable.to_onnx(
        model, (IDS,), target=target, weights=options, return_builder=True
    )
    onnx.checker.check_model(proto, full_check=True)
    counts = operators(proto)
    if target is None:
        assert {opset.domain for opset in proto.opset_import} == {""}
        assert counts["DequantizeLinear"] == counts["MatMul"] == 3
    else:
        assert counts["MatMulNBits"] == 3
        assert counts["GatherBlockQuantized"] == 1
    assert builder.record.weights.error < (0.2 if kind == "int4" else 0.02)


def test_weights_that_are_not_finite_are_named_beside_those_of_the_limit() -> None:
    model = net()
    with torch.no_grad():
        model.table.weight[7, 3] = torch.inf
        model.down.weight[0, 0] = torch.nan
    for target in (None, "onnxruntime"):
        program = ortable.export(model, (IDS,), target=target, weights="int4")
        report = program.report.weights
        assert report is not None
        reason = "a weight with NaN, infinities or numbers near them cannot be quantized"
        assert {weight.name: weight.why for weight in report.weights} == {
            "up.weight": "", "down.weight": reason, "table.weight": reason
        }  # fmt: skip
        assert [weight.bits for weight in report.weights] == [4, 32, 32]
        assert str(report).startswith("1 of 3 weights are int4")
        assert sum(line.endswith(reason) for line in str(report).splitlines()) == 2
    _, builder = ortable.to_onnx(net(), (IDS,), weights="int4", max_error=1e-4, return_builder=True)
    report = builder.record.weights
    assert {weight.why for weight in report.weights if weight.bits == 32} == {"the limit max_error"}


def test_a_tied_table_is_stored_once() -> None:
    proto = ortable.to_onnx(net(), (IDS,), target="onnxruntime", weights="int4")
    sizes = [len(tensor.raw_data) for tensor in proto.graph.initializer]
    assert sizes.count(48 * WIDTH // 2) == 1


@pytest.mark.parametrize("limit", [0.2, 0.08, 0.05, 0.006, 0.0])
def test_a_limit_is_kept(limit) -> None:
    model = net()
    program = ortable.export(model, (IDS,), target="onnxruntime", weights="int4", max_error=limit)
    report = program.report.weights
    assert report is not None
    with torch.no_grad():
        error = distance(program(IDS), model(IDS))
    assert error <= max(limit * 1.01, 1e-6)
    assert report.error <= limit
    names = {bits: {w.name for w in report.weights if w.bits == bits} for bits in (4, 8, 32)}
    assert names[32] == set(report.options.exclude)
    assert names[8] | names[32] >= {pattern for pattern, _ in report.options.bits} >= names[8]
    reasons = {weight.bits: weight.why for weight in report.weights}
    assert all((why == "the limit max_error") == (bits > 4) for bits, why in reasons.items())
    assert all(weight.layer_error < limit for weight in report.weights if weight.bits == 8)
    expected = {0.2: (3, 0, 0), 0.08: (1, 2, 0), 0.05: (0, 3, 0), 0.006: (0, 0, 3), 0.0: (0, 0, 3)}
    assert tuple(map(len, names.values())) == expected[limit]


def test_a_limit_has_no_8_bits_between_for_float_activations() -> None:
    options = {"kind": "int4", "activations": "float32"}
    program = ortable.export(net(), (IDS,), target="onnxruntime", weights=options, max_error=0.05)
    report = program.report.weights
    assert report is not None and report.error <= 0.05
    assert {weight.bits for weight in report.weights} <= {4, 32}


@pytest.mark.parametrize("target", [None, "onnxruntime"])
def test_bits_differ_by_name(target) -> None:
    model = net()
    options = {"kind": "int4", "bits": {"table.*": 8, "up.weight": 8}}
    program = ortable.export(model, (IDS,), target=target, weights=options)
    report = program.report.weights
    assert report is not None
    bits = {weight.name: weight.bits for weight in report.weights}
    assert bits == {"table.weight": 8, "up.weight": 8, "down.weight": 4}
    assert str(report).startswith("1 of 3 weights are int4, 2 int8; ")
    with torch.no_grad():
        assert distance(program(IDS), model(IDS)) == pytest.approx(report.error, rel=0.01)


def make_calls(count: int) -> list[tuple[torch.Tensor]]:
    torch.manual_seed(1)
    return [(torch.randint(48, (2, 5 + number)),) for number in range(count)]


@pytest.mark.parametrize("kind", ["int4", "int8"])
@pytest.mark.parametrize("target", [None, "onnxruntime"])
def test_calibration_makes_the_outputs_more_exact(target, kind) -> None:
    shapes = {"ids": {0: "batch", 1: "length"}}
    model, calls = net(), make_calls(8)
    errors = []
    for calibration in (None, calls):
        program = ortable.export(
            model, (IDS,), target=target, weights=kind, calibration=calibration,
            dynamic_shapes=shapes,
        )  # fmt: skip
        report = program.report.weights
        assert report is not None
        names = {weight.name for weight in report.weights if weight.calibrated}
        assert names == (set() if calibration is None else {w.name for w in report.weights})
        assert ("calibrated" in str(report)) == (calibration is not None)
        with torch.no_grad():
            errors.append(sum(distance(program(*call), model(*call)) for call in calls))
    # products of int8 also round activations
    assert errors[1] < {"int4": 0.9, "int8": 1.0}[kind] * errors[0]


def test_calibration_takes_keyword_arguments(monkeypatch) -> None:
    """Moments of one layer at a time give the same codes as those of all layers at once."""
    texts = [{"ids": call[0][:, :3]} for call in make_calls(3)]
    models = []
    for size in (1 << 30, 1):
        monkeypatch.setattr("ortable.exporter.reporting.calibration._MAX_BYTES", size)
        models.append(ortable.to_onnx(net(), (), {"ids": IDS}, weights="int4", calibration=texts))
    assert models[0] == models[1]


def test_few_inputs_say_little() -> None:
    """Of isotropic inputs, a sample that is smaller than the layer is replaced by the identity."""
    few, many = (torch.randn(count, 64).numpy() for count in (20, 2000))
    mixed = (torch.randn(2000, 64) @ torch.diag(torch.linspace(0.01, 1, 64) ** 4)).numpy()
    moments = [_shrink_moment(x.T @ x, len(x)) for x in (few, many, mixed)]
    distances = [np.abs(moment - np.eye(64)).max() for moment in moments]
    assert distances[0] < 0.2 and distances[1] < 0.2 and distances[2] > 5
    exact = mixed.T @ mixed / np.diag(mixed.T @ mixed).mean()
    assert np.abs(moments[2] - exact).max() < 0.1 * np.abs(exact).max()


def test_a_table_alone_and_inputs_without_numbers_are_not_calibrated() -> None:
    model = torch.nn.Sequential(torch.nn.Embedding(48, WIDTH), torch.nn.Linear(WIDTH, 32)).eval()
    with torch.no_grad():
        model[0].weight[7] = torch.inf
    program = ortable.export(
        model, (IDS,), target="onnxruntime", weights="int4", calibration=[torch.full((2, 3), 7)]
    )
    report = program.report.weights
    assert report is not None
    assert {weight.name: (weight.bits, weight.calibrated) for weight in report.weights} == {
        "0.weight": (32, False), "1.weight": (4, False)
    }  # fmt: skip


def test_names_say_what_is_rounded() -> None:
    options = {"kind": "int4", "include": ["*.weight"], "exclude": "down.*", "embeddings": False}
    proto, builder = ortable.to_onnx(
        net(), (IDS,), target="onnxruntime", weights=options, return_builder=True
    )
    names = {weight.name for weight in builder.record.weights.weights}
    assert names == {"table.weight", "up.weight"}
    assert operators(proto)["Gather"] == 1


def test_floats_stay_floats_where_activations_do() -> None:
    options = {"kind": "int4", "activations": "float32"}
    model = net()
    program = ortable.export(model, (IDS,), target="onnxruntime", weights=options)
    levels = {
        attribute.i
        for node in program.model_proto.graph.node
        for attribute in node.attribute
        if attribute.name == "accuracy_level"
    }
    assert levels == {1}
    for layer in (w for w in program.report.weights.weights if w.name == "up.weight"):
        assert layer.layer_error == pytest.approx(layer.weight_error, rel=0.3)


def test_every_size_of_a_dynamic_dimension() -> None:
    shapes = {"ids": {0: "batch", 1: "length"}}
    model = net()
    program = ortable.export(
        model, (IDS,), target="onnxruntime", weights="int8", dynamic_shapes=shapes
    )
    for shape in ((1, 1), (3, 7), (2, 40)):
        ids = torch.arange(shape[0] * shape[1]).reshape(shape) % 48
        with torch.no_grad():
            assert distance(program(ids), model(ids)) < 0.04


def test_the_report_is_text_and_json(tmp_path) -> None:
    program = ortable.export(net(), (IDS,), target="onnxruntime", weights="int4", max_error=0.08)
    report = program.report.weights
    text = str(report)
    assert "1 of 3 weights are int4, 2 int8, max_error=0.08" in text
    assert "up.weight" in text
    data = json.loads(report.to_json())
    assert data["nodes"] == dict(report.nodes)
    assert [entry["name"] for entry in data["weights"]] == [w.name for w in report.weights]
    assert data["options"]["kind"] == "int4"
    path = tmp_path / "report.md"
    ortable.to_onnx(net(), (IDS,), weights="int8", report=path)
    assert "3 of 3 weights are int8" in path.read_text()


def test_weights_below_a_group_stay() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(8, 64), torch.nn.Linear(64, 8)).eval()
    x = torch.randn(3, 8)
    _, builder = ortable.to_onnx(
        model, (x,), target="onnxruntime", weights="int4", return_builder=True
    )
    assert [weight.name for weight in builder.record.weights.weights] == ["1.weight"]


def test_a_large_model_and_its_files(tmp_path) -> None:
    model = net()
    path = tmp_path / "model.onnx"
    ortable.to_onnx(model, (IDS,), target="onnxruntime", weights="int4", large_model=True).save(
        path
    )
    import onnxruntime

    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    (result,) = session.run(None, {"ids": IDS.numpy()})
    with torch.no_grad():
        assert distance(torch.from_numpy(result), model(IDS)) < 0.3


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"weights": "int4", "target_opset": 18}, "needs opset 21"),
        ({"max_error": 0.1}, "give weights="),
        ({"weights": "int4", "max_error": -1}, "a number of 0 or more"),
        ({"weights": "int4", "validate": True}, "give max_error"),
        ({"weights": "int4", "export_modules_as_functions": True}, "remove one of the two"),
        ({"calibration": [IDS]}, "give weights="),
        ({"weights": "float16", "calibration": [IDS]}, "give weights="),
        ({"weights": "int4", "calibration": []}, "not an empty one"),
        ({"weights": "int4", "calibration": IDS}, "a list of calls"),
    ],
)
def test_what_contradicts_itself_is_refused(keywords, message) -> None:
    with pytest.raises(OptionError, match=message):
        ortable.to_onnx(net(), (IDS,), **keywords)


@pytest.mark.parametrize(
    "call", [(IDS, IDS), {"tokens": IDS}, (IDS.float(),), (IDS[0],), (IDS[:1],), ([IDS],)]
)
def test_calls_unlike_the_example_are_refused(call) -> None:
    with pytest.raises(InputError, match="call 1 of calibration has"):
        ortable.to_onnx(net(), (IDS,), weights="int4", calibration=[IDS, call])


def test_a_call_that_fails_is_named() -> None:
    with pytest.raises(InputError, match="cannot run call 0 of calibration"):
        ortable.to_onnx(net(), (IDS,), weights="int4", calibration=[IDS + 100])


def test_a_limit_needs_inputs() -> None:
    program = torch.export.export(net(), (IDS,))
    program._example_inputs = None
    with pytest.raises(ExportError, match="needs example inputs"):
        ortable.to_onnx(program, weights="int4", max_error=0.1)


def test_nothing_is_rounded_unless_asked() -> None:
    for rewrites in ("default", "all"):
        for target in (None, "onnxruntime"):
            counts = operators(
                ortable.to_onnx(net(), (IDS,), target=target, target_opset=23, rewrites=rewrites)
            )
            assert not counts.keys() & {"DequantizeLinear", "MatMulNBits", "GatherBlockQuantized"}
