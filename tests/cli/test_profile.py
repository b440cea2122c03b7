"""`ortable profile` prints tables, writes files, and reports errors without a traceback."""

from __future__ import annotations

import json
import re

import pytest
import torch

import ortable
from ortable.cli.main import main

pytestmark = pytest.mark.usefixtures("fresh_dynamo")

FACTORY = """
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(8, 8)

    def forward(self, x, scale=1.0):
        return torch.relu(self.first(x)) * scale

def net():
    return Net(), (torch.randn(4, 8),), {"scale": 2.0}
"""


@pytest.fixture
def target(tmp_path, monkeypatch):
    (tmp_path / "models_to_profile.py").write_text(FACTORY)
    monkeypatch.syspath_prepend(str(tmp_path))
    return "models_to_profile:net"


def test_it_prints_tables_and_writes_files(target, tmp_path, capsys):
    files = {name: tmp_path / f"out.{name}" for name in ("json", "trace", "html")}
    flags = [text for name, path in files.items() for text in (f"--{name}", str(path))]
    assert main(["profile", target, "--calls", "2", *flags]) == 0
    out = capsys.readouterr().out
    assert out.startswith("Net: ") and "(the mean of 2 calls)" in out
    assert re.search(r"^  first \(Linear\) ", out, re.MULTILINE)
    assert "graph 1 (inference) of Net.forward (models_to_profile.py:9)" in out
    assert [f"wrote {path}" in out for path in files.values()] == [True] * 3
    assert json.loads(files["json"].read_text())["calls"] == 2
    assert json.loads(files["trace"].read_text())["traceEvents"]
    assert files["html"].read_text(encoding="utf-8").startswith("<!DOCTYPE html>")


def test_training_and_options_of_the_backend(target, capsys):
    options = ["--options", "freeze=off", "optimize=True"]
    assert main(["profile", target, "--calls", "1", "--train", "--dynamic", *options]) == 0
    out = capsys.readouterr().out
    assert "graph 1 (forward) of" in out and "graph 1 (backward) of" in out


def test_a_model_file(tmp_path, capsys):
    dims = ({0: torch.export.Dim("batch")},)
    program = ortable.export(torch.nn.Linear(3, 2), (torch.randn(4, 3),), dynamic_shapes=dims)
    path = str(tmp_path / "linear.onnx")
    program.save(path)
    assert main(["profile", path, "--size", "batch=5", "--calls", "1"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("linear.onnx: ")
    assert re.search(r"generated inputs: \w+ float32\[5, 3\]", out)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nothing.onnx"], "no file 'nothing.onnx'"),
        (["TARGET", "--html", "/no/such/folder/page.html"], "'/no/such/folder' does not exist"),
        (["TARGET", "--json", "."], "cannot be written"),
        (["TARGET", "--options", "freez=off"], "Did you mean 'freeze'?"),
        (["TARGET", "--options", "freeze"], "is not NAME=VALUE"),
        (["TARGET", "--calls", "0"], "calls is a number of calls"),
        (["m.onnx", "--inputs", "f32[2]"], "--inputs is for models of PyTorch"),
        (["m.onnx", "--fallback"], "for models of PyTorch; an ONNX file takes --size"),
        (["m.onnx", "--task", "fill-mask"], "--task is for models of PyTorch"),
        (["models_to_profile:nobody"], "has no callable 'nobody'"),
    ],
)
def test_errors_are_one_line(target, get_error, arguments, message):
    command = (target if word == "TARGET" else word for word in arguments)
    assert message in get_error("profile", *command)


def test_a_terminal_gets_tables_with_lines(target, capsys, monkeypatch):
    from rich.console import Console

    monkeypatch.setattr(Console, "is_terminal", property(lambda self: True))
    assert main(["profile", target, "--calls", "1"]) == 0
    out = capsys.readouterr().out
    assert "by module" in out and "┃" in out and "first (Linear)" in out
