"""`ortable.first_difference` finds injected faults and writes a script for each of them.

The faults are in entries, rules, decompositions, transforms and models. The report has the node,
and the culprit with file and line.
"""

from __future__ import annotations

import runpy
import subprocess
import sys
from pathlib import Path

import onnx
import pytest
import torch

import ortable
from ortable.backend.cache.memory import clear_caches
from ortable.debug import where_is
from ortable.errors import InputError, OptionError
from ortable_generated.aten import dispatch

pytestmark = pytest.mark.usefixtures("own_specs", "fresh_dynamo")
ROOT = Path(__file__).parents[2]

CELU = """\
# celu as somebody might get it wrong
- op: aten::celu(Tensor self, Scalar alpha=1.) -> Tensor
  out: {{shape: same(self), dtype: same(self)}}
  lower:
    - when: dtype_of(self) == float64
      do: return Relu(self)
    - do: return {lower}
  unused: {{alpha: "it is 1 in this test"}}
  samples: [{{self: "f64[2,3]"}}, {{self: "f32[2,3]"}}]
"""
GRADIENT = """\
- op: aten::threshold_backward(Tensor grad_output, Tensor self, Scalar threshold) -> Tensor
  out: {shape: same(grad_output), dtype: same(grad_output)}
  unused: {self: "forgotten", threshold: "forgotten"}
  lower: return Identity(grad_output)
  samples: [{grad_output: "f32[2,3]", self: "f32[2,3]", threshold: 0}]
"""
RULE = """\
- rewrite: half_a_relu
  stage: simplify
  why: it is wrong, for a test
  pattern: return Relu(x)
  when: is_float32(x)
  replace: return LeakyRelu(x, alpha=0.5)
  samples:
    - {x: "f32[2,3]", expect: LeakyRelu}
    - {x: "f64[2,3]", unchanged: "is_float32(x)"}
"""


class Net(torch.nn.Module):
    def __init__(self, *activations: torch.nn.Module) -> None:
        super().__init__()
        self.first = torch.nn.Linear(4, 3)
        self.activation = torch.nn.Sequential(*activations)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(self.activation(self.first(x)), 1)


def net(*activations: torch.nn.Module) -> Net:
    torch.manual_seed(0)
    return Net(*activations).eval()


X = torch.linspace(-2, 2, 80).reshape(20, 4)


def load_wrong_celu(path: Path, lower: str = "Relu(self)") -> Path:
    file = path / "wrong.yaml"
    file.write_text(CELU.format(lower=lower))
    ortable.load_specs(file, override=True)
    return file


def run_script(script: Path) -> int:
    """Run a script in this process and return its exit status."""
    torch.compiler.reset()
    clear_caches()
    try:
        runpy.run_path(str(script))
    except SystemExit as end:
        return int(end.code or 0)
    return 0


# -- nothing differs ----------------------------------------------------------------------------


def test_a_model_that_agrees() -> None:
    report = ortable.first_difference(net(torch.nn.CELU()), (X,))
    assert report and report.ok and report.difference is None
    assert report.graphs == 1 and report.compared >= 4
    assert dict(report.tolerances) == {"float32": (1e-4, 1e-3)}
    text = str(report)
    assert f"{report.compared} results agree with eager, in 1 graph" in text
    assert "float32: within atol 0.0001, rtol 0.001" in text


def write_in_place(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
    x[:, 0].mul_(2)
    z = x + y
    y.add_(1)
    return z, z.t()


def spectrum(x: torch.Tensor) -> torch.Tensor:
    return torch.fft.ifft(torch.fft.fft(x) * 2).real


def draw(x: torch.Tensor) -> torch.Tensor:
    return torch.randn_like(x) + torch.bernoulli(x.sigmoid())


def graph_break(x: torch.Tensor) -> torch.Tensor:
    y = x * 2
    torch._dynamo.graph_break()
    return (y + 1).relu()


def repeat_rows(x: torch.Tensor) -> torch.Tensor:
    return torch.cat([x, x * x.shape[0]]).reshape(-1)


@pytest.mark.parametrize(
    ("function", "count", "options"),
    [
        (write_in_place, 2, {}),
        (spectrum, 1, {}),
        (draw, 1, {}),
        (graph_break, 1, {}),
        (repeat_rows, 1, {"dynamic": True}),
    ],
)
def test_functions_of_all_kinds_agree(function, count, options) -> None:
    args = tuple(torch.randn(3, 8) for _ in range(count))
    copies = [arg.clone() for arg in args]
    report = ortable.first_difference(function, args, **options)
    assert report and report.compared >= 2, report
    assert all(torch.equal(a, b) for a, b in zip(args, copies, strict=True))
    if function is graph_break:
        assert report.graphs == 2
    if function is draw:
        assert "torch runs them: aten::empty_strided" in str(report)


def test_complex_results_inside_are_compared(tmp_path: Path) -> None:
    report = ortable.first_difference(lambda z: (z * z).sin().abs(), (torch.randn(5) + 1j,))
    assert report and report.compared >= 3
    converter = dispatch.COMPLEX_CONVERTERS["aten::mul.Tensor"]
    dispatch.COMPLEX_CONVERTERS["aten::mul.Tensor"] = lambda graph, res, a, b: (
        dispatch.COMPLEX_CONVERTERS["aten::add.Tensor"](graph, res, a, b)
    )
    report = ortable.first_difference(lambda z: (z * z).sin().abs(), (torch.randn(5) + 1j,))
    dispatch.COMPLEX_CONVERTERS["aten::mul.Tensor"] = converter
    assert report.difference is not None and report.difference.operator == "aten::mul.Tensor"
    assert run_script(report.difference.save(tmp_path / "mul.py")) == 0  # the fault is removed


def test_training_with_dropout_and_statistics() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(4, 6), torch.nn.ReLU(), torch.nn.Dropout(0.5))
    report = ortable.first_difference(model, (X,), train=True)
    assert report and report.graphs == 2 and model[0].weight.grad is None
    model = torch.nn.Sequential(torch.nn.Linear(4, 6), torch.nn.BatchNorm1d(6), torch.nn.ReLU())
    report = ortable.first_difference(model, (X,), train=True)
    assert report and int(model[1].num_batches_tracked) == 0


def test_a_step_of_an_optimizer_leaves_no_trace() -> None:
    layer = torch.nn.Linear(4, 2)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1, momentum=0.9)
    layer(X).pow(2).mean().backward()
    weight, gradient = layer.weight.detach().clone(), layer.weight.grad
    report = ortable.first_difference(optimizer.step)
    assert report and report.graphs == 1 and report.compared >= 4
    assert torch.equal(layer.weight, weight) and layer.weight.grad is gradient
    assert not optimizer.state


# -- entries ------------------------------------------------------------------------------------


def test_a_wrong_entry_is_named_with_its_case(tmp_path: Path) -> None:
    file = load_wrong_celu(tmp_path)
    report = ortable.first_difference(net(torch.nn.CELU()), (X,), dynamic=True)
    difference = report.difference
    assert difference is not None and not report
    assert difference.graph == "inference" and difference.operator == "aten::celu"
    assert difference.culprit == "entry" and difference.case == 2
    assert difference.place == "wrong.yaml:7"
    assert file.read_text().splitlines()[6].strip() == "- do: return Relu(self)"
    assert difference.module == "activation.0 (CELU)"
    assert "return torch.softmax(self.activation(self.first(x)), 1)" in difference.source
    assert 0.1 < difference.largest < 1
    text = str(report)
    assert "differs from eager at FX node 'celu'" in text
    assert "culprit: entry aten::celu at wrong.yaml:7, case 2" in text
    assert "computed by: Relu(addmm) -> celu" in text
    assert "2 results agree with eager before it, in 1 graph" in text


@pytest.mark.slow  # starts a process
def test_the_script_fails_while_the_fault_is_there(tmp_path: Path) -> None:
    file = load_wrong_celu(tmp_path)
    difference = ortable.first_difference(net(torch.nn.CELU()), (X,)).difference
    assert difference is not None
    script = difference.save(tmp_path / "celu.py")
    assert not script.with_suffix(".pt").exists()  # the script contains the values
    text = script.read_text()
    assert "torch.ops.aten.celu.default(addmm)" in text and f"load_specs({str(file)!r}" in text
    assert text.count("torch.tensor([[") == 1  # cut to the values that differ
    assert run_script(script) == 1
    command = [sys.executable, str(script)]
    file.write_text(CELU.format(lower="Celu(self)"))
    result = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=300)
    assert result.returncode == 0 and result.stdout.strip() == "equal", (
        result.stdout + result.stderr
    )


def test_values_that_nothing_else_shows_lie_beside_the_script(monkeypatch, tmp_path: Path) -> None:
    def convert_wrongly(graph, res, x):
        seven = graph.make_initializer("", torch.tensor(7.0).numpy())
        return graph.make_node(
            "Where", [graph.make_node("Equal", [x, seven]), graph.make_node("Neg", [x]),
                      graph.make_node("Relu", [x])], [res.outputs[0]],
        )  # fmt: skip

    monkeypatch.setitem(dispatch.CONVERTERS, "aten::relu", convert_wrongly)
    x = torch.zeros(10, 11)
    x[9, 10] = 7
    difference = ortable.first_difference(torch.relu, (x,)).difference
    assert difference is not None and list(difference.tensors) == ["arg0_1"]
    script = difference.save(tmp_path / "relu.py")
    assert torch.equal(torch.load(script.with_suffix(".pt"))["arg0_1"], x)
    assert " before it" not in script.read_text()
    assert run_script(script) == 1
    monkeypatch.undo()
    assert run_script(script) == 0


def test_a_converter_of_the_package_is_named(monkeypatch) -> None:
    def convert_wrongly(graph, res, x, alpha=1.0):
        graph.case = 1
        return graph.make_node("Relu", [x], [res.outputs[0]])

    monkeypatch.setitem(dispatch.CONVERTERS, "aten::celu", convert_wrongly)
    difference = ortable.first_difference(net(torch.nn.CELU()), (X,), train=True).difference
    assert difference is not None and difference.graph == "forward"
    file, line = difference.place.split(":")
    assert file == "specs/aten/activation.yaml"
    lines = (ROOT / file).read_text().splitlines()
    assert (
        "aten::celu(" in lines[int(line) - 5]
        and "dtype_of(self) == float32" in lines[int(line) - 1]
    )


def test_a_wrong_gradient_is_named(tmp_path: Path) -> None:
    (tmp_path / "gradient.yaml").write_text(GRADIENT)
    ortable.load_specs(tmp_path / "gradient.yaml", override=True)
    difference = ortable.first_difference(net(torch.nn.ReLU()), (X,), train=True).difference
    assert difference is not None and difference.graph == "backward"
    assert difference.node == difference.operator.removeprefix("aten::") == "threshold_backward"
    assert difference.culprit == "entry" and difference.place == "gradient.yaml:1"
    assert run_script(difference.save(tmp_path / "gradient.py")) == 1


def test_a_wrong_kernel_is_none_of_the_entry(monkeypatch) -> None:
    def sum_without_cast(graph, res, x, dtype=None):  # ONNX Runtime sums integers as float64
        return graph.make_node("ReduceSum", [x], [res.outputs[0]], keepdims=0)

    monkeypatch.setitem(dispatch.CONVERTERS, "aten::sum", sum_without_cast)
    difference = ortable.first_difference(
        lambda x: x.sum(), (torch.tensor([2**60, 1, 1, 1]),)
    ).difference
    assert difference is not None and difference.culprit == "kernel"
    assert difference.name == "ReduceSum" and difference.spec_file == "specs/aten/reduce.yaml"
    assert difference.largest == 3 and "int64" in difference.eager


# -- faults after the converters ----------------------------------------------------------------


def test_a_wrong_rule_is_named(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(f"# a rule\n{RULE}")
    options = {"rewrites": ["default", str(file)]}
    difference = ortable.first_difference(net(torch.nn.ReLU()), (X,), options=options).difference
    assert difference is not None and difference.culprit == "rule"
    assert difference.name == "half_a_relu" and difference.place == f"{file}:2"
    assert difference.node == "relu"
    assert run_script(difference.save(tmp_path / "rule.py")) == 1


def change_alpha(model: onnx.ModelProto) -> None:
    for node in model.graph.node:
        if node.op_type == "Celu":
            node.attribute[0].f = 2.0


def test_a_transform_of_the_user_is_named() -> None:
    options = {"pre_ort_model_transforms": [lambda model: None, change_alpha]}
    diff = ortable.first_difference(net(torch.nn.CELU()), (X,), options=options).difference
    assert diff is not None and diff.culprit == "transform" and diff.name == "change_alpha"
    line = change_alpha.__code__.co_firstlineno
    assert diff.place == f"{__file__}:{line}" and not diff.script
    with pytest.raises(OptionError, match="has no script"):
        diff.save("nowhere.py")


def test_an_optimizer_of_onnx_runtime_is_told_from_the_graph() -> None:
    settings = {"optimization.enable_gelu_approximation": "1"}
    options = {"target_opset": 18, "rewrites": "none", "session_options": settings}
    report = ortable.first_difference(
        net(torch.nn.GELU()), (X,), options=options, atol=1e-6, rtol=1e-6
    )
    assert report.difference is not None and report.difference.culprit == "optimizer"
    assert dict(report.tolerances) == {"float32": (1e-6, 1e-6)}


def test_tolerances_that_add_up_are_no_fault(monkeypatch) -> None:
    def convert_roughly(graph, res, x):
        scale = graph.make_initializer("", torch.tensor(1 + 2e-3, dtype=torch.float32).numpy())
        return graph.make_node("Mul", [graph.make_node("Relu", [x]), scale], [res.outputs[0]])

    monkeypatch.setitem(dispatch.CONVERTERS, "aten::relu", convert_roughly)
    diff = ortable.first_difference(
        lambda x: torch.relu(x) * 1000, (X,), atol=0.01, rtol=0.0
    ).difference
    assert diff is not None and diff.operator == "aten::mul.Tensor"
    assert diff.culprit == "accumulated" and "aten.relu" in diff.script
    assert "; needs 1 operator before it" in diff.script


# -- faults before the converters --------------------------------------------------------------


def test_a_decomposition_of_the_user_is_named() -> None:
    def relu(x, alpha=1.0):
        return torch.relu(x)

    table = ortable.ExportOptions(decomposition_table={torch.ops.aten.celu.default: relu})
    for train in (False, True):
        diff = ortable.first_difference(
            net(torch.nn.CELU()), (X,), train=train, options={"export_options": table}
        ).difference
        assert diff is not None and diff.culprit == "decomposition"
        assert diff.name == "aten::celu" and diff.module == "activation.0 (CELU)"
        assert diff.place.endswith(f"test_first_difference.py:{relu.__code__.co_firstlineno}")


@pytest.mark.slow
def test_a_decomposition_of_the_table_is_named(monkeypatch, tmp_path: Path) -> None:
    from ortable.backend.aot import decompositions

    overload = torch.ops.aten.block_diag.default
    table = ortable.get_decomposition_table()
    decompose = table[overload]
    wrong = {**table, overload: lambda tensors: decompose([t * 1.5 for t in tensors])}
    monkeypatch.setattr(decompositions, "_build_default_table", lambda: wrong)
    diff = ortable.first_difference(
        lambda a, b: torch.block_diag(a, b) + 1, (torch.randn(3, 4), torch.randn(2, 2))
    ).difference
    assert diff is not None and diff.culprit == "decomposition"
    assert diff.name == "aten::block_diag"
    file, line = diff.place.split(":")
    assert "aten::block_diag" in (ROOT / file).read_text().splitlines()[int(line) - 1]
    script = diff.save(tmp_path / "block.py")
    assert run_script(script) == 1
    monkeypatch.undo()
    assert run_script(script) == 0


# -- exported models ----------------------------------------------------------------------------


def test_a_program_with_a_wrong_entry(tmp_path: Path) -> None:
    model = net(torch.nn.CELU())
    report = ortable.first_difference(ortable.export(model, (X,)))
    assert report and report.compared >= 3 and report.graphs == 1
    file = load_wrong_celu(tmp_path)
    difference = ortable.first_difference(ortable.export(model, (X,))).difference
    assert difference is not None and difference.graph == "export"
    assert difference.culprit == "entry" and difference.place == "wrong.yaml:7"
    script = difference.save(tmp_path / "celu.py")
    assert "ortable.export(Call(), arguments(), target_opset=" in script.read_text()
    assert run_script(script) == 1
    file.write_text(CELU.format(lower="Celu(self)"))
    assert run_script(script) == 0


def test_a_model_file_that_was_changed(tmp_path: Path) -> None:
    model = net(torch.nn.CELU())
    proto = ortable.to_onnx(model, (X,))
    assert ortable.first_difference(model, (X,), exported=proto)
    change_alpha(proto)
    onnx.save(proto, tmp_path / "model.onnx")
    diff = ortable.first_difference(model, (X,), exported=tmp_path / "model.onnx").difference
    assert diff is not None and diff.culprit == "model" and diff.node == "celu"
    assert "a new export of the module" in str(diff)


def test_what_cannot_be_compared_is_refused() -> None:
    model = net(torch.nn.CELU())
    program = ortable.export(model, (X,))
    with pytest.raises(OptionError, match=r"^train: an option of torch"):
        ortable.first_difference(program, train=True)
    with pytest.raises(InputError, match="the model takes 1"):
        ortable.first_difference(program, (X, X))
    other = ortable.to_onnx(model, (X,), input_names=["other"])
    with pytest.raises(InputError, match="the model has the inputs other"):
        ortable.first_difference(model, (X,), exported=other)


# -- locations ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "file", "text"),
    [
        ("aten::celu", "specs/aten/activation.yaml", "- op: aten::celu("),
        ("aten::celu/2", "specs/aten/activation.yaml", "- do: |"),
        ("aten::addmm/2", "specs/aten/linalg.yaml", "- "),
        ("gelu_erf", "specs/rewrites/activation.yaml", "- rewrite: gelu_erf"),
        ("aten::_aminmax", "specs/aten/aliases.yaml", "- alias: aten::_aminmax"),
    ],
)
def test_where_entries_and_rules_stand(name: str, file: str, text: str) -> None:
    location = where_is(name)
    assert location is not None and location.file == file
    assert text in (ROOT / file).read_text().splitlines()[location.line - 1]


def test_where_nothing_stands() -> None:
    assert where_is("aten::no_such_operator") is None
    assert str(where_is("aten::celu")).startswith("specs/aten/activation.yaml:")
