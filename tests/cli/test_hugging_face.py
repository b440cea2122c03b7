"""Models of transformers on the command line, by folder, class or task; nothing is downloaded."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Iterator
from pathlib import Path

import onnx
import pytest
import torch
import transformers

import ortable
from ortable.cli.hugging_face import _make_random_model, example_call
from ortable.cli.main import main
from ortable.compat.transformers import models_of
from ortable.errors import InputError, VersionError

from .conftest import GetError

SIZES = {
    "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1, "num_attention_heads": 2,
    "vocab_size": 99,
}  # fmt: skip
FIELDS = [f"{name}={value}" for name, value in SIZES.items()]


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    torch.manual_seed(0)
    models_by_name = {
        "bert": transformers.BertForMaskedLM(transformers.BertConfig(**SIZES)),
        "llama": transformers.LlamaForCausalLM(
            transformers.LlamaConfig(**SIZES, num_key_value_heads=1, max_position_embeddings=64)
        ),
    }
    for name, model in models_by_name.items():
        model.save_pretrained(folder / name)
    (folder / "no_weights").mkdir()
    (folder / "no_weights" / "config.json").write_text((folder / "bert/config.json").read_text())
    (folder / "no_class").mkdir()
    (folder / "no_class" / "config.json").write_text('{"model_type": "bert"}')
    (folder / "broken").mkdir()
    (folder / "broken" / "config.json").write_text("{")
    return folder


@pytest.fixture(autouse=True)
def _working_directory(
    models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    for path in models.iterdir():
        (tmp_path / path.name).symlink_to(path)
    monkeypatch.chdir(tmp_path)
    yield


def _run_json(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> dict:
    assert main([*arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_a_folder_with_free_sizes(capsys: pytest.CaptureFixture[str]) -> None:
    report = _run_json(
        ["export", "bert", "-o", "b.onnx", "--task", "fill-mask", "--dynamic"], capsys
    )
    assert {value["name"]: value["shape"] for value in report["inputs"]} == {
        name: ["batch", "sequence"] for name in ("input_ids", "attention_mask", "token_type_ids")
    }
    assert [value["name"] for value in report["outputs"]] == ["logits"]
    assert report["outputs"][0]["shape"] == ["batch", "sequence", 99]
    assert report["largest_difference"] < 1e-5 and len(report["comparisons"]) == 3
    onnx.checker.check_model("b.onnx")


def test_sizes_that_are_fixed_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", "bert", "-o", "b.onnx"]) == 0
    output = capsys.readouterr().out
    assert "sizes are fixed: input_ids [2, 8]" in output and "--dynamic frees them" in output
    arguments = ["export", "bert", "-o", "b.onnx", "--inputs", "input_ids=i64[batch=3,5] in 0..99"]
    (input_report,) = _run_json(arguments, capsys)["inputs"]
    assert input_report["shape"] == ["batch", 5]


def test_a_class_has_the_configuration_that_is_given(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["export", "BertForSequenceClassification", "-o", "b.onnx", "--config", *FIELDS]
    report = _run_json([*arguments, "num_labels=5", "--weights", "int8"], capsys)
    assert report["outputs"][0]["shape"] == [2, 5] and report["largest_difference"] is None
    arguments = ["export", "BertModel", "-o", "b.onnx", "--config", "no_weights"]
    report = _run_json([*arguments, "--config", "hidden_size=64"], capsys)
    assert report["outputs"][0] == {
        "name": "last_hidden_state", "type": "float32", "shape": [2, 8, 64],
    }  # fmt: skip


def test_of_several_classes_of_a_task_the_configuration_names_one() -> None:
    config = transformers.FunnelConfig(block_sizes=[1], d_model=8, n_head=2, d_head=4, d_inner=8)
    for name in ("FunnelModel", "FunnelBaseModel"):
        config.architectures = [name]
        config.save_pretrained("funnel")
        model = _make_random_model("FunnelPreTrainedModel", "feature-extraction", ("funnel",))
        assert type(model).__name__ == name


@pytest.mark.parametrize("int8_flags", [[], ["--weights", "int8", "--cache", "int8"]])
def test_text_generation_is_a_folder(
    capsys: pytest.CaptureFixture[str], int8_flags: list[str]
) -> None:
    report = _run_json(["export", "llama", "-o", "out", *int8_flags], capsys)
    names = {Path(name).name for name in report["files"]}
    assert names >= {"model.onnx", "model.onnx.data", "config.json", "genai_config.json"}
    assert report["largest_difference"] < (0.1 if int8_flags else 1e-5)
    assert report["inputs"][3]["name"] == "past_key_values.0.key"
    assert report["inputs"][3]["type"] == ("int8" if int8_flags else "float32")
    tokens = ortable.OnnxLanguageModel.load("out").generate(
        torch.tensor([[5, 7]]), max_new_tokens=3
    )
    assert tokens.shape == (1, 5)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["llama", "-o", "x.onnx"], "LlamaForCausalLM generates text, which is a folder"),
        (["llama", "-o", "x", "--large"], "--large does not go with LlamaForCausalLM"),
        (["llama", "-o", "x", "--inputs", "i64[2,3]"], "inputs are known: leave out --inputs"),
        (["no_class", "-o", "x.onnx"], "config.json of 'no_class' names no class: give --task"),
        (["bert", "-o", "x.onnx", "--loop", "greedy"], "--loop is for models of transformers"),
        (["bert", "-o", "x.onnx", "--task", "fil-mask"], "Did you mean 'fill-mask'?"),
        (["bert", "-o", "x.onnx", "--task", "object-detection"], "Tasks of the model: "),
        (["bert", "-o", "x.onnx", "--task", "text-classification"], "would be random: "),
        (["bert", "-o", "x.onnx", "--config", "a=1"], "--config is for a class"),
        (["no_weights", "-o", "x.onnx"], "try BertForMaskedLM --config no_weights"),
        (["broken", "-o", "x.onnx"], "transformers cannot read broken/config.json"),
        (["no/model", "-o", "x.onnx"], "downloads nothing. What to do: hf download no/model"),
        (["BertForMaskdLM", "-o", "x.onnx"], "Did you mean 'BertForMaskedLM'?"),
        (["BertTokenizer", "-o", "x.onnx"], "BertTokenizer is not a model class"),
        (["BertModel", "-o", "x.onnx", "--config", "hiden_size=8"], "Did you mean 'hidden_size'?"),
        (["BertModel", "-o", "x.onnx", "--config", "llama"], "takes a BertConfig"),
    ],
)
def test_what_is_wrong_is_said(get_error: GetError, arguments: list[str], text: str) -> None:
    assert text in get_error("export", *arguments)
    assert not Path("x.onnx").exists()


@pytest.mark.parametrize("target", ["bert", "some/model"])
def test_transformers_is_not_installed(
    get_error: GetError, monkeypatch: pytest.MonkeyPatch, target: str
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    message = f"error: {target} is a model of transformers: pip install transformers"
    assert message in get_error("export", target, "-o", "b.onnx")


def test_a_table_of_transformers_that_is_kept_elsewhere() -> None:
    with pytest.raises(VersionError, match=r"no AutoModel\._model_mapping, which the command"):
        models_of(type("AutoModel", (), {}))


@pytest.mark.parametrize(
    ("name", "fields", "shapes"),
    [
        (
            "ViTModel",
            {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "image_size": 32},
            {"pixel_values": (2, 3, 32, 32)},
        ),
        (
            "T5ForConditionalGeneration",
            {"d_model": 16, "num_layers": 1, "num_heads": 2, "d_kv": 8, "vocab_size": 50},
            {"input_ids": (2, 8), "attention_mask": (2, 8), "decoder_input_ids": (2, 5)},
        ),
        (
            "WhisperModel",
            {"d_model": 16, "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 2,
             "decoder_attention_heads": 2, "max_source_positions": 20},
            {"input_features": (2, 80, 40), "decoder_input_ids": (2, 5)},
        ),
        (
            "Wav2Vec2Model",
            {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2},
            {"input_values": (2, 16000)},
        ),
    ],
)  # fmt: skip
def test_inputs_follow_the_configuration(
    name: str, fields: dict[str, int], shapes: dict[str, tuple[int, ...]]
) -> None:
    model_class = getattr(transformers, name)
    model = model_class(model_class.config_class(**fields)).eval()
    kwargs, free = example_call(model)
    input_shapes = {
        name: tuple(tensor.shape) for name, tensor in kwargs.items() if name != "use_cache"
    }
    assert input_shapes == shapes and set(free) == set(kwargs)
    with torch.no_grad():
        model(**kwargs)


def test_inputs_that_nobody_knows_are_asked_for() -> None:
    class UnknownInput(transformers.BertModel):
        def forward(self, input_ids, secret):  # type: ignore[override]
            return super().forward(input_ids)

    model = UnknownInput(transformers.BertConfig(**SIZES))
    with pytest.raises(InputError, match="needs the input 'secret'"):
        example_call(model)


def test_a_folder_is_a_target_of_the_commands_about_torch_compile(
    fresh_dynamo: None, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["explain", "bert", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["graphs"]) == 1
