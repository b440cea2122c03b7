"""Exported models of an encoder and a decoder, compared with `generate` of transformers."""

from __future__ import annotations

import functools
import importlib.util
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch
import transformers

import ortable
from ortable.errors import ExportError, InputError, OptionError
from ortable.exporter.language_models.encoder_decoder import (
    DecoderGraph,
    EncoderGraph,
    make_encoder_decoder,
)
from tests.child import python

from .helpers import assert_close

pytestmark = pytest.mark.alternates(parts=3)

VOCABULARY, FRAMES, BINS, TOKENS = 97, 40, 8, 9
_TOKENS = {"vocab_size": VOCABULARY, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
_BART = {
    **_TOKENS, "d_model": 32, "encoder_layers": 1, "decoder_layers": 1, "encoder_ffn_dim": 64,
    "encoder_attention_heads": 4, "decoder_attention_heads": 4, "decoder_ffn_dim": 64,
    "max_position_embeddings": 64, "decoder_start_token_id": 2,
}  # fmt: skip
_T5 = {
    **_TOKENS, "d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 1, "num_heads": 4,
    "decoder_start_token_id": 0,
}  # fmt: skip
_BERT = {
    "vocab_size": VOCABULARY, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1,
    "num_attention_heads": 4, "max_position_embeddings": 64,
}  # fmt: skip
_GEMMA = {**_TOKENS, **_BERT, "num_hidden_layers": 2, "num_key_value_heads": 2, "head_dim": 8,
          "sliding_window": 4}  # fmt: skip
ARCHITECTURES: dict[str, dict[str, Any]] = {
    "bart": _BART,
    "marian": {**_BART, "decoder_start_token_id": 0, "scale_embedding": True, "init_std": 0.1},
    "mbart": {**_BART, "scale_embedding": True},
    "pegasus": {**_BART, "decoder_start_token_id": 0, "scale_embedding": True, "init_std": 0.1},
    "t5": _T5,
    "whisper": {
        **_BART, "num_mel_bins": BINS, "max_source_positions": FRAMES // 2,
        "max_target_positions": 32, "suppress_tokens": None, "begin_suppress_tokens": None,
    },
}  # fmt: skip
# Run with the sweeps.
SLOW: dict[str, dict[str, Any]] = {
    "bigbird_pegasus": {**_BART, "attention_type": "original_full"},
    "blenderbot": _BART,
    "blenderbot-small": _BART,
    "encoder-decoder": {
        "encoder": {**_BERT, "model_type": "bert"}, "pad_token_id": 0, "decoder_start_token_id": 1,
        "decoder": {**_BERT, "model_type": "bert", "is_decoder": True, "add_cross_attention": True},
    },
    "fsmt": {
        "src_vocab_size": VOCABULARY, "tgt_vocab_size": VOCABULARY, "langs": ["en", "de"],
        **{key: value for key, value in _BART.items() if key != "vocab_size"},
    },
    "longt5": {**_T5, "local_radius": 3},
    "m2m_100": _BART,
    "mt5": _T5,
    "mvp": _BART,
    "pegasus_x": {**_BART, "block_size": 4, "num_global_tokens": 2},
    "plbart": _BART,
    "t5gemma": {"encoder": _GEMMA, "decoder": _GEMMA, "vocab_size": VOCABULARY},
    "umt5": _T5,
}  # fmt: skip
every_architecture = pytest.mark.parametrize(
    "name", [*ARCHITECTURES, *(pytest.param(name, marks=pytest.mark.slow) for name in SLOW)]
)
# Settings of generate, for texts of different lengths.
SEARCHES: list[dict[str, Any]] = [
    {},
    {"num_beams": 3, "num_return_sequences": 2, "min_length": 4, "length_penalty": 0.7},
]


def build(name: str) -> Any:
    """Return a model with random weights in eval mode, whose tokens depend on the source."""
    torch.manual_seed(0)
    config = transformers.AutoConfig.for_model(name, **{**ARCHITECTURES, **SLOW}[name])
    family = "SpeechSeq2Seq" if name == "whisper" else "Seq2SeqLM"
    model = getattr(transformers, f"AutoModelFor{family}").from_config(config).eval()
    if model.generation_config.decoder_start_token_id is None:
        model.generation_config.update(decoder_start_token_id=1, pad_token_id=0)
    return enlarge_weights(model)


def enlarge_weights(model: Any) -> Any:
    """Enlarge projections, mostly those of cross attention, in place; return the model."""
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if weight.dim() > 1 and "embed" not in name and "shared" not in name:
                weight.mul_(80 if "encoder_attn" in name or "EncDec" in name else 4)
    return model


def make_source(name: str, batch: int, length: int = 7) -> dict[str, torch.Tensor]:
    """Return the encoder's input; the first two texts of several are shorter, and padded."""
    torch.manual_seed(1)
    if name == "whisper":
        return {"input_features": torch.randn(batch, BINS, FRAMES)}
    tokens = torch.randint(3, VOCABULARY, (batch, length))
    mask = torch.ones_like(tokens)
    if batch > 1:
        mask[0, -3:] = mask[1, -1:] = 0
    return {"input_ids": tokens * mask, "attention_mask": mask}


def generated(model: Any, source: dict[str, torch.Tensor], **settings: Any) -> torch.Tensor:
    """Return the tokens of transformers."""
    settings = {"do_sample": False, "max_new_tokens": TOKENS, **settings}
    return model.generate(**source, **settings)


def run(exported: ortable.OnnxLanguageModel, source: Any, **settings: Any) -> torch.Tensor:
    """Return the tokens of the folder."""
    return exported.generate(*source.values(), **{"max_new_tokens": TOKENS, **settings})


Exporter = Callable[[str], tuple[Any, ortable.OnnxLanguageModel]]


@pytest.fixture(scope="module")
def exporter(tmp_path_factory: pytest.TempPathFactory) -> Exporter:
    """Return a function that exports a model once; one of the model's texts ends early."""

    @functools.cache
    def export_model(name: str) -> tuple[Any, ortable.OnnxLanguageModel]:
        model = build(name)
        model.generation_config.update(eos_token_id=None, forced_eos_token_id=None)
        texts = generated(model, make_source(name, 3))
        assert len({*map(tuple, texts.tolist())}) > 1, "the source changes nothing"
        end = int(texts[1, 4])
        model.generation_config.update(eos_token_id=[end, VOCABULARY - 1])
        folder = tmp_path_factory.mktemp("models") / name
        return model, ortable.export_language_model(model, folder)

    return export_model


@pytest.mark.alternates(parts=3)
@every_architecture
def test_tokens_are_those_of_generate(name: str, exporter: Exporter) -> None:
    model, exported = exporter(name)
    ends = torch.tensor(model.generation_config.eos_token_id)
    for batch in (1, 3):
        source = make_source(name, batch)
        for settings in SEARCHES:
            expected = generated(model, source, **settings)
            assert torch.equal(run(exported, source, **settings), expected), (batch, settings)
    assert torch.isin(generated(model, source), ends).any(), "no text ends early"


@pytest.mark.alternates(parts=3)
@every_architecture
def test_both_graphs_take_every_size(name: str, exporter: Exporter) -> None:
    """The decoder's graph takes prompts, single tokens and pieces of a text."""
    model, exported = exporter(name)
    parts = make_encoder_decoder(model)
    encoder, decoder = (
        onnxruntime.InferenceSession(exported.folder / file, providers=["CPUExecutionProvider"])
        for file in exported.files
    )
    for batch, length in ((1, 1), (3, 11)):
        source = make_source(name, batch, length)
        with torch.no_grad():
            hidden, cross = EncoderGraph(parts)(*source.values())
        results = encoder.run(None, {key: value.numpy() for key, value in source.items()})
        assert_close([torch.from_numpy(value) for value in results], [hidden, *cross])
        mask = list(source.values())[1:]
        for past, count in ((0, 1), (0, 4), (1, 1), (5, 1), (3, 2)):
            cache = []
            for number, layer in enumerate(parts.self_layers):
                shape = (batch, layer.heads, past, layer.key_width)
                cache += [torch.randn(shape), torch.randn(shape)]
                cache += cross[2 * number : 2 * number + 2]
            tokens = torch.randint(3, VOCABULARY, (batch, count))
            with torch.no_grad():
                logits, present = DecoderGraph(parts)(tokens, *mask, past=cache)
            names, values = [v.name for v in decoder.get_inputs()], [tokens, *mask, *cache]
            feeds = {key: value.numpy() for key, value in zip(names, values, strict=True)}
            results = [torch.from_numpy(value) for value in decoder.run(None, feeds)]
            assert_close(results, [logits, *present])


def test_names_and_sizes_are_those_of_optimum(exporter: Exporter) -> None:
    _, exported = exporter("t5")
    assert exported.files == ("encoder_model.onnx", "decoder_with_past_model.onnx")
    encoder, decoder = (onnxruntime.InferenceSession(exported.folder / f) for f in exported.files)
    shapes = {
        value.name: value.shape
        for session in (encoder, decoder)
        for value in (*session.get_inputs(), *session.get_outputs())
        if value.name != "input_ids"
    }
    batch, source, past = "batch_size", "encoder_sequence_length", "past_decoder_sequence_length"
    total = f"decoder_sequence_length + {past}"
    assert shapes == {
        "attention_mask": [batch, source],
        "last_hidden_state": [batch, source, 32],
        "encoder_attention_mask": [batch, source],
        "past_key_values.0.decoder.key": [batch, 4, past, 8],
        "past_key_values.0.decoder.value": [batch, 4, past, 8],
        "past_key_values.0.encoder.key": [batch, 4, source, 8],
        "past_key_values.0.encoder.value": [batch, 4, source, 8],
        "logits": [batch, "decoder_sequence_length", VOCABULARY],
        "present.0.decoder.key": [batch, 4, total, 8],
        "present.0.decoder.value": [batch, 4, total, 8],
        "present.0.encoder.key": [batch, 4, source, 8],
        "present.0.encoder.value": [batch, 4, source, 8],
    }
    assert [value.name for value in encoder.get_inputs()] == ["input_ids", "attention_mask"]
    assert exported.input_names[0] == "input_ids" and exported.output_names[0] == "logits"


@pytest.mark.alternates("name")
@pytest.mark.parametrize("name", ["bart", "whisper"])
def test_a_third_graph_is_optimums_first_step(name: str, tmp_path: Path) -> None:
    """optimum 0.1.0 runs the three graphs; here its two calls of the decoder are made."""
    model = build(name)
    exported = ortable.export_language_model(model, tmp_path / "model", merged=False)
    encoder, prompt, step = (
        onnxruntime.InferenceSession(exported.folder / f"{file}.onnx")
        for file in ("encoder_model", "decoder_model", "decoder_with_past_model")
    )
    source = make_source(name, 3)
    arrays = {key: value.numpy() for key, value in source.items()}
    (states,) = encoder.run(["last_hidden_state"], arrays)
    masks = {f"encoder_{key}": value for key, value in arrays.items() if "mask" in key}
    tokens = np.full((3, 1), model.generation_config.decoder_start_token_id)
    feeds = {"input_ids": tokens, "encoder_hidden_states": states, **masks}
    names = [value.name for value in prompt.get_outputs()]
    logits, *present = prompt.run(names, feeds)
    token = logits[:, -1:].argmax(-1)
    past = {
        key.replace("present", "past_key_values"): value
        for key, value in zip(names[1:], present, strict=True)
    }
    second = step.run(["logits"], {"input_ids": token, **masks, **past})[0][:, -1].argmax(-1)
    with torch.no_grad():
        text = torch.from_numpy(np.concatenate([tokens, token], 1))
        expected = model(**source, decoder_input_ids=text).logits.argmax(-1)
    assert torch.equal(torch.from_numpy(np.stack([token[:, 0], second], 1)), expected)
    assert torch.equal(run(exported, source), generated(model, source))


CONFIGURED: list[tuple[str, dict[str, Any]]] = [
    ("bart", {"num_beams": 4, "min_length": 6, "no_repeat_ngram_size": 2, "max_length": 12,
              "forced_bos_token_id": 1, "forced_eos_token_id": 2, "early_stopping": True}),
    ("marian", {"num_beams": 2, "bad_words_ids": [[5], [7, 8]], "max_length": 10}),
    ("mbart", {"forced_bos_token_id": 33, "max_length": 10}),
    ("t5", {"repetition_penalty": 1.7, "encoder_no_repeat_ngram_size": 2}),
    ("t5", {"use_cache": False, "max_length": 8}),
    ("t5", {"cache_implementation": "static", "max_length": 8}),
    ("whisper", {"suppress_tokens": [64, 9], "begin_suppress_tokens": [5, 2], "max_length": 12}),
]  # fmt: skip


@pytest.mark.parametrize(("name", "settings"), CONFIGURED, ids=[n for n, _ in CONFIGURED])
def test_generation_config_is_followed(
    name: str, settings: dict[str, Any], exporter: Exporter, tmp_path: Path
) -> None:
    """The folder's generation_config.json chooses the tokens, and the length by default."""
    model, exported = exporter(name)
    config = transformers.GenerationConfig(**{**model.generation_config.to_dict(), **settings})
    folder = shutil.copytree(exported.folder, tmp_path / "model")
    config.save_pretrained(folder)
    loaded = ortable.OnnxLanguageModel.load(folder)
    source, original = make_source(name, 3), model.generation_config
    model.generation_config = config
    try:
        expected = model.generate(**source, do_sample=False)
    finally:
        model.generation_config = original
    assert torch.equal(loaded.generate(*source.values()), expected)


def test_samples_are_those_of_the_same_seed(exporter: Exporter) -> None:
    model, exported = exporter("t5")
    source = make_source("t5", 2)
    settings = {"do_sample": True, "top_k": 20, "top_p": 0.9, "temperature": 1.4}
    for beams in (1, 2):
        torch.manual_seed(3)
        expected = generated(model, source, num_beams=beams, **settings)
        torch.manual_seed(3)
        assert torch.equal(run(exported, source, num_beams=beams, **settings), expected)


def test_prefixes_and_missing_masks(exporter: Exporter) -> None:
    """Without a mask every token is visible, also padding, as in transformers."""
    model, exported = exporter("t5")
    tokens = {"input_ids": make_source("t5", 3)["input_ids"]}
    assert torch.equal(run(exported, tokens), generated(model, tokens))
    prefix = {"decoder_input_ids": torch.tensor([[0, 5, 6], [0, 8, 9], [0, 4, 5]])}
    assert torch.equal(run(exported, tokens, **prefix), generated(model, tokens, **prefix))
    endless = run(exported, tokens, eos_token_id=[])
    assert torch.equal(endless, generated(model, tokens, eos_token_id=None))


def test_whisper_reads_long_audio_and_languages(tmp_path: Path) -> None:
    """Segments, timestamps, and the tokens of language and task are those of transformers."""
    model = build("whisper")
    settings = {
        "no_timestamps_token_id": 60, "is_multilingual": True, "max_initial_timestamp_index": 5,
        "lang_to_id": {"<|en|>": 50, "<|fr|>": 51}, "max_length": 24,
        "task_to_id": {"transcribe": 52, "translate": 53},
    }  # fmt: skip
    for name, value in settings.items():
        setattr(model.generation_config, name, value)
    exported = ortable.export_language_model(model, tmp_path / "model")
    segments: list[Any] = []
    model.get_encoder().register_forward_hook(lambda *call: segments.append(call))
    audio, mask = torch.randn(2, BINS, FRAMES * 2 + 20), torch.ones(2, FRAMES * 2 + 20)
    mask[1, FRAMES:] = 0
    for settings in ({"return_timestamps": True}, {"language": "fr", "task": "translate"}, {}):
        features = audio if "return_timestamps" in settings else audio[..., :FRAMES]
        masks = mask[..., : features.shape[-1]].to(torch.int64)
        expected = model.generate(features, attention_mask=masks, **settings)
        assert torch.equal(exported.generate(features, masks, **settings), expected)
        assert len(segments) > 2 or features is not audio


@pytest.mark.slow  # a model is exported in three forms
def test_weights_are_stored_once_and_rounded(tmp_path: Path) -> None:
    model = build("t5")
    source = make_source("t5", 3)
    sizes = {}
    for weights in (None, "int8", "float16"):
        exported = ortable.export_language_model(model, tmp_path / str(weights), weights=weights)
        sizes[weights] = (exported.folder / "encoder_model.onnx.data").stat().st_size
        assert run(exported, source).shape[0] == 3
    nbytes = sum(value.nbytes for value in {v.data_ptr(): v for v in model.parameters()}.values())
    assert sizes[None] < 1.2 * nbytes
    assert sizes["float16"] < 0.6 * sizes[None] and sizes["int8"] < 0.6 * sizes[None]


@pytest.mark.slow
def test_half_precision_and_a_cast(tmp_path: Path) -> None:
    model = build("bart").to(torch.bfloat16)
    exported = ortable.export_language_model(model, tmp_path / "model", weights="float32")
    expected = generated(model.to(torch.float32), make_source("bart", 3))
    assert torch.equal(run(exported, make_source("bart", 3)), expected)
    half = build("whisper").to(torch.float16)
    exported = ortable.export_language_model(half, tmp_path / "half", validate=0.05)
    features = make_source("whisper", 2)["input_features"]
    with pytest.raises(InputError, match=r"input_features is torch\.float16 of shape"):
        exported.generate(features)
    source = {"input_features": features.half()}
    assert torch.equal(run(exported, source), generated(half, source))


def test_the_folder_runs_without_the_code_of_the_model(exporter: Exporter, tmp_path: Path) -> None:
    model, exported = exporter("bart")
    source = make_source("bart", 2)
    code = (
        "import sys, torch, ortable\n"
        f"model = ortable.OnnxLanguageModel.load({str(exported.folder)!r})\n"
        f"tokens = model.generate(torch.tensor({source['input_ids'].tolist()}), "
        f"torch.tensor({source['attention_mask'].tolist()}), max_new_tokens={TOKENS})\n"
        "print([name for name in sys.modules if '.modeling_bart' in name], tokens.tolist())\n"
    )
    result = python("-c", code)
    assert result.stdout.strip() == f"[] {generated(model, source).tolist()}", result.stderr


def prophet() -> Any:
    config = transformers.ProphetNetConfig(
        **_TOKENS, hidden_size=32, encoder_ffn_dim=64, decoder_ffn_dim=64, num_encoder_layers=1,
        num_decoder_layers=1, num_encoder_attention_heads=4, num_decoder_attention_heads=4,
        max_position_embeddings=64, decoder_start_token_id=1,
    )  # fmt: skip
    return transformers.ProphetNetForConditionalGeneration(config).eval()


def speech() -> Any:
    config = transformers.Speech2TextConfig(
        **{**_BART, "max_source_positions": 60, "max_target_positions": 32},
        input_feat_per_channel=8, conv_channels=16,
    )  # fmt: skip
    return transformers.Speech2TextForConditionalGeneration(config).eval()


def with_own_generate() -> Any:
    class Translator(transformers.T5ForConditionalGeneration):
        def prepare_inputs_for_generation(self, *args: Any, **kwargs: Any) -> Any:
            return super().prepare_inputs_for_generation(*args, **kwargs)

    return Translator(transformers.T5Config(**_T5)).eval()


@pytest.mark.parametrize(
    ("make", "options", "error", "message"),
    [
        (lambda: build("t5").train(), {}, InputError, r"call model\.eval\(\)"),
        (lambda: build("t5").to("meta"), {}, InputError, "without data"),
        (prophet, {}, ExportError, "only supported for .*length 1"),
        (speech, {}, ExportError, "the encoder of Speech2Text.* takes input_features: .*to_onnx"),
        (with_own_generate, {}, ExportError, r"code of its own \(prepare_inputs_for_generation\)"),
        (lambda: build("t5"), {"genai": True}, ExportError, "no type for T5.*genai=False"),
        (lambda: build("whisper"), {"genai": True}, ExportError, "Whisper's, of 1500 positions"),
        (lambda: build("t5"), {"loop": "greedy"}, OptionError, "loop='greedy' is for causal"),
        (lambda: build("t5"), {"cache": "int8"}, OptionError, "and cache is for causal models"),
        (lambda: build("t5"), {"context_length": 9}, OptionError, "context_length is for causal"),
    ],
)
def test_what_has_no_two_graphs_is_refused(make, options, error, message, tmp_path: Path) -> None:
    with pytest.raises(error, match=message):
        ortable.export_language_model(make(), tmp_path / "model", **options)
    assert not list(tmp_path.iterdir())


def test_what_the_runner_is_given_is_checked(exporter: Exporter, tmp_path: Path) -> None:
    _, exported = exporter("t5")
    source = make_source("t5", 3)
    tokens, mask = source.values()
    for settings, message in [
        ({"num_beam": 2}, "does not take 'num_beam': a folder runs"),
        ({"return_dict_in_generate": True}, "does not take 'return_dict_in_generate'"),
        ({"prompt_lookup_num_tokens": 2}, "ask for assisted_generation, which needs the model"),
        ({"penalty_alpha": 0.5, "top_k": 4}, "ask for contrastive_search"),
        ({"max_new_tokens": 0}, "max_new_tokens is a number of tokens"),
        ({"decoder_attention_mask": mask}, "does not take 'decoder_attention_mask'"),
    ]:
        with pytest.raises(OptionError, match=message):
            exported.generate(tokens, mask, **settings)
    with pytest.raises(InputError, match="attention_mask has the shape"):
        exported.generate(tokens, mask[:, :2])
    for wrong in (tokens[0], tokens.float(), tokens[:0]):
        with pytest.raises(InputError, match=r"input_ids is torch\.int64 of shape"):
            exported.generate(wrong)
    with pytest.raises(OptionError, match="step is for causal models"):
        exported.step(tokens, mask)
    folder = shutil.copytree(exported.folder, tmp_path / "model")
    (folder / "config.json").unlink()
    with pytest.raises(InputError, match=r"has no config\.json of transformers"):
        ortable.OnnxLanguageModel.load(folder).generate(tokens, mask)


@pytest.mark.slow
def test_genai_runs_whisper(tmp_path: Path) -> None:
    """onnxruntime-genai takes audio of 3000 frames; names and sizes are checked without it."""
    model = transformers.WhisperForConditionalGeneration(
        transformers.WhisperConfig(**{**ARCHITECTURES["whisper"], "max_source_positions": 1500})
    ).eval()
    enlarge_weights(model)
    exported = ortable.export_language_model(model, tmp_path / "model")
    content = json.loads((exported.folder / "genai_config.json").read_text())["model"]
    assert content["type"] == "whisper"
    for part, file in (("encoder", exported.files[0]), ("decoder", exported.files[1])):
        session = onnxruntime.InferenceSession(exported.folder / content[part]["filename"])
        assert content[part]["filename"] == file
        for role, values in (("inputs", session.get_inputs()), ("outputs", session.get_outputs())):
            names = {name.replace("%d", "0") for name in content[part][role].values()}
            assert names == {value.name for value in values}
    if importlib.util.find_spec("onnxruntime_genai") is None:
        return
    features, prefix = torch.randn(2, BINS, 3000), torch.tensor([[2, 5, 9], [2, 7, 11]])
    settings = {"decoder_input_ids": prefix, "eos_token_id": None, "early_stopping": True}
    for beams in (1, 3):
        source = {"input_features": features}
        expected = generated(model, source, num_beams=beams, **settings)
        tokens = generate_with_genai(exported.folder, features, prefix, beams)
        assert torch.equal(tokens[:, prefix.shape[1] :], expected)


def generate_with_genai(
    folder: Path, features: torch.Tensor, prefix: torch.Tensor, beams: int
) -> torch.Tensor:
    import onnxruntime_genai

    model = onnxruntime_genai.Model(str(folder))
    parameters = onnxruntime_genai.GeneratorParams(model)
    length = prefix.shape[1] + TOKENS
    parameters.set_search_options(batch_size=len(prefix), max_length=length, num_beams=beams)
    generator = onnxruntime_genai.Generator(model, parameters)
    inputs = onnxruntime_genai.NamedTensors()
    inputs["input_features"] = features.numpy()
    inputs["input_ids"] = prefix.numpy().astype(np.int32)
    generator.set_inputs(inputs)
    while not generator.is_done():
        generator.generate_next_token()
    return torch.tensor([list(generator.get_sequence(row)) for row in range(len(prefix))])
