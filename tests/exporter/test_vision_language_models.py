"""Exported models that read images, compared with `generate` of transformers."""

from __future__ import annotations

import functools
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnxruntime
import pytest
import torch
import transformers

import ortable
from ortable.errors import ExportError, InputError, OptionError
from ortable.exporter.language_models.vision_language import make_vision_language

from .helpers import assert_close

pytestmark = pytest.mark.alternates(parts=3)

VOCABULARY, IMAGE, SIDE, TOKENS = 99, 98, 28, 8
GRID = [1, 4, 6]
_TEXT = {
    "vocab_size": VOCABULARY, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 128,
    "bos_token_id": 1, "eos_token_id": None, "pad_token_id": 0,
}  # fmt: skip
_GEMMA = {**_TEXT, "num_key_value_heads": 1, "head_dim": 8}
_GEMMA_2 = {**_GEMMA, "model_type": "gemma2", "sliding_window": 6}
_VISION = {
    "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
    "image_size": SIDE, "patch_size": 14,
}  # fmt: skip
_QWEN = {
    "depth": 2, "hidden_size": 32, "num_heads": 4, "patch_size": 4, "spatial_merge_size": 2,
    "temporal_patch_size": 2,
}  # fmt: skip
_ROTARY = {"rope_type": "default", "mrope_section": [1, 1, 2], "rope_theta": 10000.0}
_QWEN_TOKENS = {
    "image_token_id": IMAGE, "video_token_id": 97, "vision_start_token_id": 96,
    "vision_end_token_id": 95,
}  # fmt: skip
# Model type -> arguments of its configuration.
ARCHITECTURES: dict[str, dict[str, Any]] = {
    "llava": {
        "vision_config": {**_VISION, "model_type": "clip_vision_model"},
        "text_config": {**_TEXT, "model_type": "llama"}, "image_token_id": IMAGE,
    },
    "gemma3": {
        "vision_config": {**_VISION, "model_type": "siglip_vision_model"},
        "text_config": {
            **_GEMMA, "model_type": "gemma3_text", "sliding_window": 6,
            "layer_types": ["sliding_attention", "full_attention"],
        },
        "image_token_id": IMAGE, "mm_tokens_per_image": 4,
    },
}  # fmt: skip
# Run with the sweeps.
SLOW: dict[str, dict[str, Any]] = {
    "aya_vision": {
        "vision_config": {**_VISION, "patch_size": 7, "model_type": "siglip_vision_model"},
        "text_config": {**_TEXT, "model_type": "cohere2"}, "image_token_id": IMAGE,
        "adapter_layer_norm_eps": 1e-6, "vision_feature_layer": -1,
    },
    "idefics3": {
        "vision_config": _VISION, "text_config": {**_TEXT, "model_type": "llama"},
        "image_token_id": IMAGE, "scale_factor": 2, "pad_token_id": 0,
    },
    "internvl": {
        "vision_config": {**_VISION, "image_size": [SIDE, SIDE], "patch_size": [7, 7]},
        "text_config": {**_TEXT, "model_type": "qwen2"}, "image_token_id": IMAGE,
    },
    "paligemma": {
        "vision_config": {**_VISION, "model_type": "siglip_vision_model"},
        "text_config": {**_GEMMA, "model_type": "gemma"}, "image_token_id": IMAGE,
        "projection_dim": 32,
    },
    "qwen2_vl": {
        "vision_config": {**_QWEN, "embed_dim": 32, "mlp_ratio": 2},
        "text_config": {**_TEXT, "rope_parameters": _ROTARY}, **_QWEN_TOKENS,
    },
    "qwen2_5_vl": {
        "vision_config": {
            **_QWEN, "intermediate_size": 64, "out_hidden_size": 32, "window_size": 16,
            "fullatt_block_indexes": [1],
        },
        "text_config": {**_TEXT, "rope_parameters": _ROTARY}, **_QWEN_TOKENS,
    },
    "smolvlm": {
        "vision_config": _VISION, "text_config": {**_TEXT, "model_type": "llama"},
        "image_token_id": IMAGE, "scale_factor": 2, "pad_token_id": 0,
    },
    "vipllava": {
        "vision_config": {**_VISION, "model_type": "clip_vision_model"},
        "text_config": {**_TEXT, "model_type": "llama"}, "image_token_id": IMAGE,
        "vision_feature_layers": [-2, -1],
    },
}  # fmt: skip
every_architecture = pytest.mark.parametrize(
    "name", [*ARCHITECTURES, *(pytest.param(name, marks=pytest.mark.slow) for name in SLOW)]
)
# Settings of generate, for texts of different lengths.
SEARCHES: list[dict[str, Any]] = [
    {},
    {"num_beams": 3, "num_return_sequences": 2, "length_penalty": 0.7},
    {"use_cache": False, "repetition_penalty": 1.3},
]


def build(name: str) -> Any:
    """Return a model with random weights in eval mode, whose tokens depend on the images."""
    torch.manual_seed(0)
    config = transformers.AutoConfig.for_model(name, **{**ARCHITECTURES, **SLOW}[name])
    model = transformers.AutoModelForImageTextToText.from_config(config).eval()
    model.generation_config.eos_token_id = None
    with torch.no_grad():
        for weight in model.parameters():
            if weight.dim() > 1:
                weight.copy_(torch.randn_like(weight) * 0.15)
    return model


def image_inputs(name: str, counts: list[int]) -> dict[str, torch.Tensor]:
    """Return random images, ``counts`` for each text, as the processor of a model makes them."""
    total = sum(counts)
    if name.startswith("qwen2"):
        pixels = torch.randn(total * 24, 3 * 2 * 4 * 4)
        return {"pixel_values": pixels, "image_grid_thw": torch.tensor([GRID] * total)}
    if name in ("idefics3", "smolvlm"):
        shape = (len(counts), max(counts), 3, SIDE, SIDE)
        pixels, mask = torch.randn(shape), torch.ones(*shape[:2], SIDE, SIDE, dtype=torch.bool)
        mask[0, 0, 20:] = False
        for row, count in enumerate(counts):
            pixels[row, count:] = 0
        return {"pixel_values": pixels, "pixel_attention_mask": mask}
    return {"pixel_values": torch.randn(total, 3, SIDE, SIDE)}


def make_inputs(
    name: str, exported: ortable.OnnxLanguageModel, counts: list[int]
) -> dict[str, Any]:
    """Return texts of different lengths with ``counts`` images each, padded on the left."""
    torch.manual_seed(1)
    session = onnxruntime.InferenceSession(exported.folder / "vision.onnx")
    tokens_per_image = session.get_outputs()[0].shape[0]
    texts = []
    for number, count in enumerate(counts):
        image = [IMAGE] * tokens_per_image
        words = torch.randint(3, 90, (count + 5 - number,)).tolist()
        texts.append([token for word in words[:count] for token in [word, *image]] + words[count:])
    length = max(map(len, texts))
    tokens = torch.tensor([[0] * (length - len(text)) + text for text in texts])
    inputs = {"input_ids": tokens, "attention_mask": (tokens != 0).long()}
    if sum(counts):
        inputs |= image_inputs(name, counts)
    is_image = (tokens == IMAGE).long()
    if name == "gemma3":
        inputs["token_type_ids"] = is_image
    if name == "paligemma":  # the last tokens are no prefix
        inputs["token_type_ids"] = torch.ones_like(tokens)
        inputs["token_type_ids"][:, :-2] = 0
    if name.startswith("qwen2"):
        inputs["mm_token_type_ids"] = is_image.int()
    return inputs


def generated(model: Any, inputs: dict[str, Any], **settings: Any) -> torch.Tensor:
    """Return the tokens of transformers."""
    copies = {key: value.clone() for key, value in inputs.items()}
    return model.generate(**copies, do_sample=False, max_new_tokens=TOKENS, **settings)


Exporter = Callable[[str], tuple[Any, ortable.OnnxLanguageModel]]


@pytest.fixture(scope="module")
def exporter(tmp_path_factory: pytest.TempPathFactory) -> Exporter:
    """Return a function that exports a model once."""

    @functools.cache
    def export_model(name: str) -> tuple[Any, ortable.OnnxLanguageModel]:
        model, folder = build(name), tmp_path_factory.mktemp("models") / name
        images = image_inputs(name, [1]) if name.startswith("qwen2") else None
        ortable.export_language_model(model, folder, images=images, logits="all")
        return model, ortable.OnnxLanguageModel.load(folder)

    return export_model


@pytest.mark.alternates(parts=2)
@every_architecture
def test_tokens_are_those_of_generate(name: str, exporter: Exporter) -> None:
    """Texts have one image, two and none, and logits depend on the images."""
    model, exported = exporter(name)
    for counts in ([1], [1, 2], [0, 0]):
        inputs = make_inputs(name, exported, counts)
        for settings in SEARCHES:
            expected = generated(model, inputs, **settings)
            tokens = exported.generate(**inputs, max_new_tokens=TOKENS, **settings)
            assert torch.equal(tokens, expected), (counts, settings)
    inputs = make_inputs(name, exported, [2])
    with torch.no_grad():
        first = model(**inputs).logits
        second = model(**{**inputs, "pixel_values": -inputs["pixel_values"]}).logits
    assert (first - second).abs().max() > 1e-2, "the image changes nothing"


@pytest.mark.alternates(parts=2)
@every_architecture
def test_logits_of_each_step(name: str, exporter: Exporter) -> None:
    """The logits of a prompt with an image and of 8 tokens are those of eager."""
    model, exported = exporter(name)
    inputs = make_inputs(name, exported, [1, 1])
    step_logits: dict[str, list[torch.Tensor]] = {}
    for side, generator in (("eager", model), ("folder", exported._sequence_generator)):
        copies = {key: value.clone() for key, value in inputs.items()}
        output = generator.generate(
            **copies, do_sample=False, max_new_tokens=1 + TOKENS, output_logits=True,
            return_dict_in_generate=True,
        )  # fmt: skip
        step_logits[side] = output.logits
    assert len(step_logits["eager"]) == 1 + TOKENS
    assert_close(step_logits["folder"], step_logits["eager"])


@every_architecture
def test_the_step_takes_pieces(name: str, exporter: Exporter) -> None:
    """The graph of a step takes embeddings of a prompt, of a token and of a piece of a text."""
    model, exported = exporter(name)
    images = image_inputs(name, [1]) if name.startswith("qwen2") else None
    decoder = make_vision_language(model, False, images).decoder
    session = onnxruntime.InferenceSession(exported.folder / "model.onnx")
    for batch, past, count in ((1, 0, 1), (2, 0, 5), (3, 4, 1), (1, 5, 3)):
        tokens = torch.zeros(batch, count, dtype=torch.int64)
        call = decoder._make_call(tokens, past, decoder.example_cache(True, batch, past))
        call["inputs_embeds"] = torch.randn_like(call["inputs_embeds"])
        if "token_type_ids" in call:
            call["token_type_ids"] = torch.randint(2, (batch, past + count))
        layers = [
            (torch.randn(layer.keys.shape), torch.randn(layer.values.shape))
            for layer in call[decoder.cache].layers
        ]
        feeds = {key: call[key] for key in decoder.text_inputs()}
        feeds |= dict(
            zip(decoder.cache_names("past_key_values"), _flatten_layers(layers), strict=True)
        )
        call[decoder.cache] = transformers.DynamicCache(layers)
        with torch.no_grad():
            output = decoder.model(**call)
        present = [(layer.keys, layer.values) for layer in getattr(output, decoder.cache).layers]
        results = session.run(
            ["logits", *decoder.cache_names("present")],
            {key: value.numpy() for key, value in feeds.items()},
        )
        expected = [output.logits, *_flatten_layers(present)]
        assert_close([torch.from_numpy(value) for value in results], expected)


def _flatten_layers(layers: list[tuple[torch.Tensor, torch.Tensor]]) -> list[torch.Tensor]:
    return [tensor for layer in layers for tensor in layer]


def test_token_types_change_the_logits(exporter: Exporter) -> None:
    """Gemma 3 attends in both directions among the tokens of an image, if it gets their types."""
    model, exported = exporter("gemma3")
    inputs = make_inputs("gemma3", exported, [1])
    with torch.no_grad():
        first, second = (
            model(**{**inputs, "token_type_ids": types}).logits
            for types in (inputs["token_type_ids"], torch.zeros_like(inputs["token_type_ids"]))
        )
    assert (first - second).abs().max() > 1e-3
    del inputs["token_type_ids"]
    expected = generated(model, inputs)
    assert torch.equal(exported.generate(**inputs, max_new_tokens=TOKENS), expected)


def test_an_image_token_without_an_image_is_a_word(exporter: Exporter) -> None:
    model, exported = exporter("llava")
    inputs = {"input_ids": torch.tensor([[5, IMAGE, 6]]), "attention_mask": torch.ones(1, 3).long()}
    expected = generated(model, inputs)
    assert torch.equal(exported.generate(**inputs, max_new_tokens=TOKENS), expected)


@pytest.mark.parametrize("weights", ["int8", pytest.param("int4", marks=pytest.mark.slow)])
def test_small_weights(weights: str, exporter: Exporter, tmp_path: Path) -> None:
    model, exported = exporter("llava")
    small = ortable.export_language_model(model, tmp_path / "small", weights=weights)
    inputs = make_inputs("llava", exported, [1, 1])
    tokens = small.generate(**inputs, max_new_tokens=2)
    assert tokens.shape == (2, inputs["input_ids"].shape[1] + 2)
    small_size, size = (
        (folder / "model.onnx.data").stat().st_size for folder in (small.folder, exported.folder)
    )
    assert small_size < size


def test_inputs_that_do_not_fit_are_refused(exporter: Exporter, tmp_path: Path) -> None:
    _, exported = exporter("llava")
    inputs = make_inputs("llava", exported, [1, 1])
    pixels = inputs["pixel_values"]
    for wrong, message in [
        ({"pixel_values": pixels[:1]}, "the texts have 8 image tokens"),
        (
            {"pixel_values": pixels[..., :20]},
            "pixel_values of an image is",
        ),
        ({"pixel_values": pixels.double()}, "not torch.float64"),
        ({"attention_mask": torch.ones(2, 3)}, "attention_mask has the shape"),
        ({"input_ids": inputs["input_ids"].float()}, "input_ids is integers"),
    ]:
        with pytest.raises(InputError, match=message):
            exported.generate(**{**inputs, **wrong}, max_new_tokens=2)
    for settings, message in [
        ({"image_sizes": torch.ones(1, 2)}, "does not take 'image_sizes'"),
        ({"output_logits": True}, "does not take 'output_logits'"),
        ({"penalty_alpha": 0.5, "top_k": 4}, "ask for contrastive_search"),
    ]:
        with pytest.raises(OptionError, match=message):
            exported.generate(**inputs, **settings)
    with pytest.raises(OptionError, match="has a part for images: call generate"):
        exported.step(inputs["input_ids"], inputs["attention_mask"])
    folder = shutil.copytree(exported.folder, tmp_path / "model")
    (folder / "config.json").unlink()
    with pytest.raises(InputError, match=r"has no config\.json of transformers"):
        ortable.OnnxLanguageModel.load(folder).generate(**inputs)


def test_options_and_models_that_are_refused(tmp_path: Path) -> None:
    model = build("llava")
    for options, message in [
        ({"loop": "greedy"}, "reads images, and loop='greedy' is for causal models"),
        ({"cache": "int8"}, "reads images, and cache is"),
        ({"merged": False}, "reads images, and merged=False is"),
        ({"genai": True}, "reads images, and genai=True is"),
    ]:
        with pytest.raises(OptionError, match=message):
            ortable.export_language_model(model, tmp_path / "model", **options)
    for images, message in [
        ({"pixel_values": torch.ones(3, 28, 28)}, "pixel_values has 4 dimensions"),
        ({"pixel_values": torch.ones(1, 3, 28, 28), "grid": torch.ones(1)}, "images has 'grid'"),
        ([1], "images is a dict of tensors with pixel_values"),
    ]:
        with pytest.raises(InputError, match=message):
            ortable.export_language_model(model, tmp_path / "model", images=images)
    text = transformers.LlamaForCausalLM(transformers.LlamaConfig(**_TEXT)).eval()
    with pytest.raises(OptionError, match="LlamaForCausalLM reads no images"):
        ortable.export_language_model(text, tmp_path / "model", images={})
    assert not (tmp_path / "model").exists()


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("llava_next", ARCHITECTURES["llava"], "vision tower of LlavaNext.* takes image_sizes"),
        ("qwen2_vl", SLOW["qwen2_vl"], "exported for images of one size"),
        ("paligemma", {**SLOW["paligemma"], "text_config": _GEMMA_2}, "windows over a prefix"),
        ("mllama", None, "reads images otherwise than as features"),
    ],
)  # fmt: skip
def test_models_that_are_refused(
    name: str, arguments: dict[str, Any] | None, message: str, tmp_path: Path
) -> None:
    if arguments is None:
        small = {**_VISION, "num_global_layers": 1, "intermediate_layers_indices": [0],
                 "vision_output_dim": 64, "supported_aspect_ratios": [[1, 1]]}  # fmt: skip
        text = {**_TEXT, "cross_attention_layers": [1]}
        config = transformers.AutoConfig.for_model(name, vision_config=small, text_config=text)
    else:
        config = transformers.AutoConfig.for_model(name, **arguments)
    model = transformers.AutoModelForImageTextToText.from_config(config).eval()
    with pytest.raises(ExportError, match=message):
        ortable.export_language_model(model, tmp_path / "model")
