"""`ortable explain`, `bench`, `debug`, `tune` and `profile`."""

from __future__ import annotations

import json
import re

import pytest
import torch

from ortable.cli.main import main

pytestmark = pytest.mark.usefixtures("fresh_dynamo")

FACTORY = """
import torch

class Broken(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(8, 8)
        self.second = torch.nn.Linear(8, 2)

    def forward(self, x):
        y = torch.tanh(self.first(x))
        if y.sum() > 100:
            y = y * 2
        return self.second(y)

@torch.library.custom_op("clitest::secret", mutates_args=())
def secret(x: torch.Tensor) -> torch.Tensor:
    return x.clone()

@secret.register_fake
def _(x):
    return torch.empty_like(x)

class Unknown(torch.nn.Module):
    def forward(self, x):
        return secret(x) + 1

def broken():
    return Broken(), (torch.randn(4, 8),)

def whole():
    return torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Tanh()), (torch.randn(4, 8),)

def unknown():
    return Unknown(), (torch.randn(4),)
"""


@pytest.fixture
def compiled_models(tmp_path, monkeypatch):
    (tmp_path / "models_of_the_shell.py").write_text(FACTORY)
    monkeypatch.syspath_prepend(str(tmp_path))
    return "models_of_the_shell"


def test_explain_counts_graphs_breaks_operators_and_nodes(compiled_models, capsys):
    assert main(["explain", f"{compiled_models}:broken"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("2 graphs, 1 graph break\n")
    assert re.search(r"break 1 at .*models_of_the_shell\.py:12", out)
    assert "aten::addmm 1" in out and "Gemm 1" in out and "Tanh 1" in out
    assert out.count("ONNX Runtime") == 2 and "ONNX Runtime runs the 1 ONNX node unchanged" in out
    assert re.search(r"seconds: .*convert \d", out)


def test_bench_prints_both_and_their_ratio(compiled_models, capsys):
    assert main(["bench", f"{compiled_models}:broken", "--rounds", "2"]) == 0
    out = capsys.readouterr().out
    assert re.search(r"^eager +[\d.]+ ms a call", out, re.MULTILINE)
    assert re.search(r"^compiled +[\d.]+ ms a call", out, re.MULTILINE)
    assert "of eager's time (2 rounds)" in out


def test_debug_finds_nothing_where_nothing_is_wrong(compiled_models, capsys):
    assert main(["debug", f"{compiled_models}:broken", "--train"]) == 0
    assert "nothing differs from eager: " in capsys.readouterr().out


def test_explain_prints_json_and_markdown(compiled_models, capsys):
    assert main(["explain", f"{compiled_models}:broken", "--json", "--train"]) == 0
    report = json.loads(capsys.readouterr().out)
    kinds = [graph["kind"] for graph in report["graphs"]]
    assert kinds == ["forward", "backward"] * 2 and not report["notes"]
    assert main(["explain", f"{compiled_models}:broken", "--markdown"]) == 0
    assert capsys.readouterr().out.startswith("# 2 graphs, 1 graph break\n")


def test_explain_lists_what_cannot_be_converted(compiled_models, capsys):
    assert main(["explain", f"{compiled_models}:unknown"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("1 graph, 0 graph breaks, 1 unsupported operator\n")
    assert re.search(r"clitest::secret, 1 call at models_of_the_shell\.py:\d+: ", out)


@pytest.mark.parametrize("command", ["bench", "debug"])
def test_what_cannot_be_converted_is_an_error(compiled_models, get_error, command):
    message = get_error(command, "--no-fallback", f"{compiled_models}:unknown")
    assert "clitest::secret" in message


def test_bench_of_training_is_json(compiled_models, capsys):
    flags = ["--train", "--rounds", "2", "--json", "--dynamic", "--options", "freeze=off"]
    assert main(["bench", *flags, f"{compiled_models}:broken"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["train"] and report["rounds"] == 2
    assert report["eager_ms"]["least"] <= report["eager_ms"]["median"] <= report["eager_ms"]["most"]
    assert report["ratio"] > 0 and report["first_call_s"] > 0


def test_bench_of_training_needs_gradients(compiled_models, get_error):
    flags = ["--train", "--fallback", "--options", "hints=False"]
    message = get_error("bench", *flags, f"{compiled_models}:unknown")
    assert "no result of the model requires gradients" in message


def test_what_cannot_be_converted_runs_in_torch(compiled_models, get_error):
    flags = ["--rounds", "2", "--options", "hints=False"]
    assert main(["bench", *flags, f"{compiled_models}:unknown"]) == 0
    message = get_error("bench", "--no-fallback", *flags, f"{compiled_models}:unknown")
    assert "without --no-fallback it runs in torch" in message


@pytest.mark.parametrize("command", ["explain", "bench", "tune", "profile"])
@pytest.mark.parametrize(
    ("flags", "text"),
    [
        (["--options", "freez=off"], "Did you mean 'freeze'?"),
        (["--options", "freeze=maybe"], "must be 'auto', 'on', 'off' or 'trust'"),
        (["--options", "target_opset=99"], "Option 'target_opset'"),
        (["--options", "fallback=eager", "--fallback"], "given by --options and by --fallback"),
        (["--options", "fallback=eager", "--no-fallback"], "by --options and by --no-fallback"),
    ],
)
def test_options_are_those_of_the_backend(compiled_models, get_error, command, flags, text):
    assert text in get_error(command, f"{compiled_models}:broken", *flags)


def test_tune_runs_backward_with_train(compiled_models, capsys):
    flags = ["--train", "--seconds", "0.05", "--json"]
    assert main(["tune", f"{compiled_models}:whole", *flags]) == 0
    reports = json.loads(capsys.readouterr().out)  # of forward and backward
    assert [report["found"] for report in reports] == ["searched"] * 2


@pytest.mark.parametrize("command", ["bench", "explain", "profile"])
def test_a_saved_program_is_compiled(tmp_path, capsys, get_error, command):
    path = str(tmp_path / "model.pt2")
    torch.export.save(torch.export.export(torch.nn.Linear(3, 2), (torch.rand(2, 3),)), path)
    assert main([command, path]) == 0
    assert capsys.readouterr().out
    assert "a saved program runs in the mode" in get_error(command, path, "--train")
