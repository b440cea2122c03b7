"""`ortable debug` in the shell reports the line of a wrong rule or entry, or the option."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from ortable.cli.main import main
from tests.packaging.files import ROOT

MODELS = """
import torch
import ortable


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(4, 4)

    def forward(self, x):
        return torch.relu(self.first(x) + x + x)


def net():
    torch.manual_seed(0)
    return Net(), (torch.randn(3, 4),)


def wrong_net():
    ortable.load_specs("wrong.yaml", override=True)
    return net()


def gelu():
    return torch.nn.GELU(), (torch.linspace(-3, 3, 20),)
"""
ENTRY = """
- op: aten::threshold_backward(Tensor grad_output, Tensor self, Scalar threshold) -> Tensor
  out: {shape: "broadcast(grad_output, self)", dtype: "promote(grad_output, self)"}
  unused: {threshold: it is zero}
  lower: return Where(Less(self, const_like(0, self)), grad_output, const_like(0, grad_output))
  samples: [{grad_output: "f32[2,3]", self: "f32[2,3]", threshold: 0}]
"""
RULE = """
# a rule that is wrong
- rewrite: add_itself
  stage: simplify
  why: a sum with itself is twice it
  pattern: return Add(Add(y, x), x)
  replace: return Add(y, Mul(x, const_like(3, x)))
  samples:
    - {x: "f32[2,3]", y: "f32[2,3]", expect: Mul}
    - {graph: "return Add(Add(y, x), y)", x: "f32[2,3]", y: "f32[2,3]", unchanged: ""}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    (tmp_path / "models_to_debug.py").write_text(MODELS)
    (tmp_path / "wrong.yaml").write_text(ENTRY)
    (tmp_path / "rules.yaml").write_text(RULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    sys.modules.pop("models_to_debug", None)
    torch.compiler.reset()


def run_debug(folder: Path, *arguments: str) -> tuple[int, str]:
    path = os.pathsep.join(str(ROOT / name) for name in ("runtime", "generated", "codegen"))
    process = subprocess.run(
        [sys.executable, "-m", "ortable.cli.main", "debug", *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert "Traceback" not in process.stderr, process.stderr
    return process.returncode, process.stdout


@pytest.mark.slow
def test_a_rule_of_yours_in_the_shell(folder: Path) -> None:
    status, out = run_debug(folder, "models_to_debug:net", "--rewrites", "default,rules.yaml")
    assert status == 1
    assert out.startswith(f"rule add_itself at {folder}/rules.yaml:3\n")
    assert "source: " in out and "models_to_debug.py:12: return torch.relu" in out
    assert "rewrites=['default', 'rules.yaml', '-add_itself'] disables the rule" in out


@pytest.mark.slow  # starts a process
def test_an_entry_of_yours_in_training_in_the_shell(folder: Path) -> None:
    status, out = run_debug(folder, "models_to_debug:wrong_net", "--train", "--json")
    report = json.loads(out)
    assert status == 1 and not report["ok"]
    assert report["fault"]["kind"] == "entry"
    assert report["fault"]["place"] == f"{folder}/wrong.yaml:2"


@pytest.mark.slow  # starts a process
def test_a_setting_in_the_shell(folder: Path) -> None:
    setting = "session_options={'optimization.enable_gelu_approximation': '1'}"
    arguments = ("models_to_debug:gelu", "--options", setting, "target_opset=18")
    status, out = run_debug(folder, *arguments)
    assert status == 1
    assert out.startswith("option session_options['optimization.enable_gelu_approximation']\n")


def test_the_script_of_an_entry(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["models_to_debug:net", "--rewrites", "default,rules.yaml", "--script", "fault.py"]
    assert main(["debug", *arguments]) == 1
    assert "no script: rule add_itself is not a single operator" in capsys.readouterr().out


def test_an_export_that_agrees(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["debug", "models_to_debug:net", "--export", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["ok"] is True


@pytest.mark.parametrize("flag", [[], ["--export"]])
def test_a_saved_program_is_called_with_its_example(
    folder: Path, capsys: pytest.CaptureFixture[str], flag: list[str]
) -> None:
    program = torch.export.export(torch.nn.Linear(3, 2), (torch.randn(4, 3),))
    torch.export.save(program, folder / "linear.pt2")
    assert main(["debug", "linear.pt2", *flag]) == 0
    assert "nothing differs from eager" in capsys.readouterr().out
