"""Commands of the shell work, and errors of ortable exit with status 2 and no traceback."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import SimpleNamespace

import onnx
import pytest
import torch
from onnx import TensorProto, helper

from ortable.cli.main import main

ROOT = Path(__file__).parents[2]

FACTORY = """
import torch

def tiny():
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU())
    return model, (torch.randn(2, 3),)
"""


@pytest.fixture
def model_path(tmp_path):
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n"])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n"])
    path = tmp_path / "m.onnx"
    onnx.save(
        helper.make_model(
            helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", [x], [y])
        ),
        path,
    )
    return str(path)


@pytest.fixture
def factory(tmp_path, monkeypatch):
    (tmp_path / "factory_of_models.py").write_text(FACTORY)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield "factory_of_models"
    sys.modules.pop("factory_of_models", None)


def test_show(model_path, capsys):
    assert main(["show", model_path]) == 0
    assert "Relu(x) -> y" in capsys.readouterr().out


def test_draw_dot_needs_no_program(model_path, tmp_path, capsys):
    target = tmp_path / "graph.dot"
    assert main(["draw", model_path, "-o", str(target)]) == 0
    assert target.read_text().startswith("digraph")


def test_draw_without_the_program(model_path, tmp_path, monkeypatch, get_error):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "'dot'" in get_error("draw", model_path, "-o", str(tmp_path / "graph.svg"))


def test_draw_one_module(factory, tmp_path, capsys):
    model, graph = str(tmp_path / "tiny.onnx"), tmp_path / "graph.json"
    assert main(["export", f"{factory}:tiny", "-o", model, "--no-validate"]) == 0
    assert main(["draw", model, "-o", str(graph), "--module", "0", "--overlay", "dtype"]) == 0
    assert f"wrote {graph}" in capsys.readouterr().out
    labels = {node["label"] for node in json.loads(graph.read_text())["graphs"][0]["nodes"]}
    assert "Gemm" in labels and "Relu" not in labels
    assert "float32" in (tmp_path / "graph.dtype.json").read_text()
    dot = ["draw", model, "-o", str(tmp_path / "x.dot"), "--no-weights", "--no-attributes"]
    assert main([*dot, "--no-fold", "--rankdir", "LR"]) == 0
    text = (tmp_path / "x.dot").read_text()
    assert "rankdir=LR" in text and ">weight<" not in text and ">transB<" not in text


def test_draw_opens_model_explorer(model_path, monkeypatch):
    opened = []

    def visualize(path, node_data):
        graph = json.loads(Path(path).read_text())
        opened.append((Path(path).name, [node["label"] for node in graph["graphs"][0]["nodes"]]))
        for overlay in node_data:
            data = json.loads(Path(overlay["node_data_path"]).read_text())
            opened.append((overlay["name"], [*data]))

    monkeypatch.setitem(sys.modules, "model_explorer", SimpleNamespace(visualize=visualize))
    monkeypatch.setitem(sys.modules, "netron", None)
    assert main(["draw", model_path, "--overlay", "rewrite", "--overlay", "dtype"]) == 0
    (name, labels), *overlays = opened
    assert name == f"{Path(model_path).stem}.json" and "Relu" in labels
    assert [name for name, _ in overlays] == ["dtype", "rewrite"]


def test_draw_opens_netron(model_path, monkeypatch, get_error):
    calls = []
    viewer = SimpleNamespace(start=calls.append, wait=lambda: calls.append("wait"))
    monkeypatch.setitem(sys.modules, "model_explorer", None)
    monkeypatch.setitem(sys.modules, "netron", viewer)
    assert main(["draw", model_path]) == 0
    assert calls == [model_path, "wait"]
    for option in (["--module", "0"], ["--overlay", "dtype"]):
        assert "need Model Explorer" in get_error("draw", model_path, *option)
    assert len(calls) == 2


def test_draw_without_a_viewer(model_path, monkeypatch, get_error):
    monkeypatch.setitem(sys.modules, "model_explorer", None)
    monkeypatch.setitem(sys.modules, "netron", None)
    message = get_error("draw", model_path)
    for remedy in ("pip install ai-edge-model-explorer", "pip install netron", "-o model.svg"):
        assert remedy in message


@pytest.mark.parametrize(
    ("flags", "text"),
    [
        (["--module", "encoder"], "no module 'encoder'"),
        (["--depth", "-1"], "depth must be None or an int of at least 0"),
        (["--overlay", "dtype"], "overlays require a .json"),
    ],
)
def test_draw_says_what_it_cannot_draw(model_path, tmp_path, get_error, flags, text):
    assert text in get_error("draw", model_path, *flags, "-o", str(tmp_path / "x.dot"))


def test_ops(capsys):
    assert main(["ops", "--grep", "aten::addmm"]) == 0
    out = capsys.readouterr().out
    header, *rows, count = out.splitlines()
    assert header.split() == [
        "operator", "opsets", "dtypes", "dynamic", "cases", "samples", "escape", "forward",
        "gradient",
    ]  # fmt: skip
    assert rows[0].startswith("aten::addmm ") and "f32" in rows[0]
    assert count == f"{len(rows)} operators"


def test_ops_missing(tmp_path, capsys):
    path = tmp_path / "model.pt2"
    program = torch.export.export(torch.nn.ReLU(), (torch.randn(2),))
    torch.export.save(program, path)
    assert main(["ops", "--missing", str(path)]) == 0
    assert "0 of 1 operators have no converter" in capsys.readouterr().out


def test_export_validates(factory, tmp_path, capsys):
    target = tmp_path / "tiny.onnx"
    assert main(["export", f"{factory}:tiny", "-o", str(target), "--opset", "18"]) == 0
    out = capsys.readouterr()
    assert "largest difference" in out.out
    assert out.err == ""  # stderr is no terminal, so it shows no progress
    onnx.checker.check_model(onnx.load(target))


def test_export_of_a_saved_program_with_its_report(tmp_path, capsys):
    rows = torch.export.Dim("rows")
    program = torch.export.export(
        torch.nn.Linear(3, 2), (torch.randn(4, 3),), dynamic_shapes={"input": {0: rows}}
    )
    torch.export.save(program, tmp_path / "linear.pt2")
    target, report = tmp_path / "linear.onnx", tmp_path / "report.md"
    saved = str(tmp_path / "linear.pt2")
    assert main(["export", saved, "-o", str(target), "--large", "--report", str(report)]) == 0
    out = capsys.readouterr()
    assert "example" in out.out and "wrote" in out.out
    assert "| MatMul" in report.read_text() or "| Gemm" in report.read_text()
    assert onnx.load(target).graph.input[0].type.tensor_type.shape.dim[0].dim_param


def test_a_negative_difference_is_refused(factory, tmp_path, get_error):
    target = tmp_path / "tiny.onnx"
    message = get_error("export", f"{factory}:tiny", "-o", str(target), "--atol", "-1")
    assert "validate is True, False, or a positive float" in message and not target.exists()


def test_unknown_command_lists_the_commands(capsys):
    with pytest.raises(SystemExit):
        main(["paint"])
    assert "show" in capsys.readouterr().err


def test_specs_check(tmp_path, capsys):
    good = tmp_path / "good.yaml"
    good.write_text((ROOT / "specs" / "aten" / "unique.yaml").read_text())
    assert main(["specs", "check", str(good)]) == 0
    assert "no error" in capsys.readouterr().out
    bad = tmp_path / "bad.yaml"
    bad.write_text(
        "- op: aten::no_such_operator(Tensor self) -> Tensor\n  lower: return Relu(self)\n"
    )
    assert main(["specs", "check", str(bad)]) == 1
    err = capsys.readouterr().err
    assert "bad.yaml:1:" in err and "error" in err
