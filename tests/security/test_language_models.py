"""Hostile folders of language models: settings of other types, code, pickles, other files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from ortable.cli.main import main
from ortable.errors import InputError, OptionError, OrtableError
from ortable.exporter.language_models.encoder_decoder_runner import make_generator
from ortable.exporter.language_models.runner import OnnxLanguageModel

from . import models
from .test_programs import EvilPickle

PROMPT = torch.ones(1, 2, dtype=torch.int64)
SETTINGS = (
    "[", "[1]", '"x"', "[" * 100_000, '{"a": ' + "9" * 5000 + "}",
    '{"eos_token_id": {"a": 1}}', '{"eos_token_id": "abc"}', '{"eos_token_id": [[1]]}',
    '{"eos_token_id": 1.5}', '{"eos_token_id": 99999999999999999999999}',
    '{"pad_token_id": "x"}', '{"pad_token_id": [1]}', '{"num_beams": {}}',
    '{"repetition_penalty": "x"}', '{"repetition_penalty": [1]}',
)  # fmt: skip


@pytest.mark.parametrize("text", SETTINGS)
def test_settings(text: str, tmp_path: Path) -> None:
    (tmp_path / "model.onnx").write_bytes(b"")
    (tmp_path / "generation_config.json").write_text(text)
    with pytest.raises((InputError, OptionError), match="generation_config"):
        OnnxLanguageModel.load(tmp_path).generate(PROMPT)


@pytest.mark.parametrize(
    "text",
    [
        '{"rope_parameters": [1]}',
        '{"model_type": [1], "rope_parameters": {"rope_type": "longrope"}}',
        "{}",
        "[1]",
    ],
)
def test_configurations(text: str, tmp_path: Path) -> None:
    (tmp_path / "model.onnx").write_bytes(b"")
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(InputError, match=r"model\.onnx|config\.json"):
        OnnxLanguageModel.load(tmp_path).generate(PROMPT)


@pytest.mark.parametrize(
    "config",
    [
        {"model_type": "x", "auto_map": {"AutoConfig": "evil.Config"}},
        {"model_type": [1]},
        {"model_type": "t5", "num_layers": "x"},
        [1],
    ],
)
def test_code_in_the_folder_is_not_run(config: Any, tmp_path: Path) -> None:
    """A configuration may name a class in a file of the folder, which transformers could run."""
    mark = tmp_path / "mark"
    (tmp_path / "evil.py").write_text(f"open({str(mark)!r}, 'w').close()\nclass Config: pass\n")
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(InputError, match=r"has no config\.json of transformers"):
        make_generator(tmp_path, [], {}, "cpu")
    assert not mark.exists()


@pytest.mark.parametrize("name", ["up", "absolute", "a link out of the folder"])
def test_weights_are_in_the_folder(name: str, tmp_path: Path) -> None:
    folder = models.make_folder(tmp_path)
    (folder / "model.onnx").write_bytes(models.EXTERNAL[name]().SerializeToString())
    with pytest.raises(OrtableError, match=r"model\.onnx"):
        _ = OnnxLanguageModel.load(folder).input_names


def _write_config(folder: Path) -> None:
    from transformers import BertConfig

    sizes = dict.fromkeys(("hidden_size", "intermediate_size", "vocab_size"), 8)
    ones = dict.fromkeys(("num_hidden_layers", "num_attention_heads"), 1)
    BertConfig(**sizes, **ones, architectures=["BertModel"]).save_pretrained(folder)


@pytest.mark.parametrize("kind", ["pickle", "safetensors"])
def test_weights_of_the_command_line(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mark, folder = tmp_path / "mark", tmp_path / "model"
    _write_config(folder)
    if kind == "pickle":
        torch.save({"a": EvilPickle(mark)}, folder / "pytorch_model.bin")
    else:
        header = (1 << 60).to_bytes(8, "little") + b"{}"
        (folder / "model.safetensors").write_bytes(header)
    assert main(["export", str(folder), "-o", str(tmp_path / "m.onnx")]) != 0
    assert "error: " in capsys.readouterr().err
    assert not mark.exists()
