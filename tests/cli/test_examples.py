"""The examples in --help run, on small files with the names in the examples."""

from __future__ import annotations

import shlex
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
import transformers

import ortable
from ortable.cli.main import EXAMPLES, FIRST_STEPS, main

pytestmark = pytest.mark.alternates(parts=3)

MODELS = """
import torch

class Layer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(8, 8)

    def forward(self, x):
        return torch.nn.functional.gelu(self.linear(x))

class Encoder(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.ModuleList([Layer(), Layer()])

    def forward(self, x):
        for each in self.layer:
            x = each(x)
        return x

class Bert(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = Encoder()

    def forward(self, x):
        return self.encoder(x)

def bert():
    return Bert().eval(), (torch.rand(2, 8),)
"""
NET = """
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(10, 3)

    def forward(self, x):
        return self.linear(x)
"""
OPS = """
- op: aten::erfc(Tensor self) -> Tensor
  out: {shape: same(self), dtype: same(self)}
  lower: return Sub(const(1, dtype_of(self)), Erf(self))
  samples: [{self: "f32[n=2,3]"}]
"""
SIZES = {
    "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1, "num_attention_heads": 2,
    "vocab_size": 99,
}  # fmt: skip
# Replacements that make slow commands fast.
FAST_ARGUMENTS = (
    ("--rounds 50", "--rounds 2"),
    ("--seconds 60", "--seconds 0.1"),
    ("tune my_models:bert", "tune my_models:bert --seconds 0.1"),
    ("bench", "bench --rounds 2"),
)
FIRST_COMMANDS = [line.strip() for line in FIRST_STEPS.splitlines() if line.startswith("  ortable")]
CALLS = [call for calls in EXAMPLES.values() for call in calls]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("examples")
    (folder / "my_models.py").write_text(MODELS)
    (folder / "net.py").write_text(NET)
    (folder / "my_ops.yaml").write_text(OPS)
    scope: dict[str, object] = {}
    exec(MODELS, scope)
    model, args = scope["bert"]()  # type: ignore[operator]
    ortable.to_onnx(model, args, dynamic_shapes=({0: "batch"},), filename=folder / "model.onnx")
    torch.export.save(torch.export.export(model, args), folder / "model.pt2")
    bert = transformers.BertForMaskedLM(transformers.BertConfig(**SIZES))
    bert.save_pretrained(folder / "bert-folder")
    llama = transformers.LlamaConfig(**SIZES, num_key_value_heads=1, max_position_embeddings=64)
    transformers.LlamaForCausalLM(llama).save_pretrained(folder / "llama-folder")
    return folder


@pytest.fixture
def _working_directory(
    files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    shutil.copytree(files, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    path = list(sys.path)
    yield
    sys.path[:] = path
    for name in ("my_models", "net"):
        sys.modules.pop(name, None)


@pytest.mark.usefixtures("_working_directory", "fresh_dynamo")
@pytest.mark.parametrize("call", CALLS)
def test_an_example_runs(call: str, capsys: pytest.CaptureFixture[str]) -> None:
    line = call.partition(" | ")[0]
    for slow, fast in FAST_ARGUMENTS:
        line = line.replace(slow, fast) if fast not in line else line
    assert main(shlex.split(line)[1:]) == 0, capsys.readouterr().err
    assert capsys.readouterr().out.strip()


@pytest.mark.usefixtures("_working_directory", "fresh_dynamo")
def test_the_first_steps_run(capsys: pytest.CaptureFixture[str]) -> None:
    assert len(FIRST_COMMANDS) == 4
    for line in FIRST_COMMANDS[:-1]:
        assert main(shlex.split(line)[1:]) == 0, capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["show", "--help"])
