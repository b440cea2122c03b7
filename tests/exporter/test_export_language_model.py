"""Exported language models, compared with ``generate`` and with onnxruntime-genai."""

from __future__ import annotations

import functools
import importlib
import importlib.util
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
import transformers
from transformers import DynamicCache

import ortable
from ortable.errors import ExportError, InputError, OptionError
from ortable.exporter.language_models.decoder import make_decoder
from ortable.exporter.language_models.model_folder import genai_config

from .helpers import assert_close
from .language_models import CACHE

pytestmark = pytest.mark.alternates(parts=3)

VOCABULARY, MAX_LENGTH = 97, 64
_TEXT = {"vocab_size": VOCABULARY, "bos_token_id": 1, "eos_token_id": None, "pad_token_id": 0}
_GPT2 = {**_TEXT, "n_layer": 1, "n_head": 4, "n_embd": 32, "n_positions": MAX_LENGTH}
_LLAMA = {
    **_TEXT, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1,
    "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": MAX_LENGTH,
}  # fmt: skip
_GEMMA = {
    **_LLAMA, "num_hidden_layers": 2, "num_key_value_heads": 1, "head_dim": 8, "sliding_window": 4,
    "layer_types": ["sliding_attention", "full_attention"],
}  # fmt: skip
ARCHITECTURES: dict[str, dict[str, Any]] = {
    "bloom": {**_TEXT, "hidden_size": 32, "n_layer": 1, "n_head": 4},
    "falcon": {
        **_TEXT, "hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 4,
        "num_kv_heads": 2, "new_decoder_architecture": True,
    },
    "gemma3_text": _GEMMA,
    "gpt2": _GPT2,
    "gpt_neox": {key: value for key, value in _LLAMA.items() if key != "num_key_value_heads"},
    "llama": _LLAMA,
    "mistral": {**_LLAMA, "sliding_window": 4},
    "opt": {
        **_TEXT, "hidden_size": 32, "ffn_dim": 64, "num_hidden_layers": 1,
        "num_attention_heads": 4, "max_position_embeddings": MAX_LENGTH, "word_embed_proj_dim": 32,
    },
    "phi3": _LLAMA,
    "qwen3": {**_LLAMA, "head_dim": 8},
}  # fmt: skip
# Run with the sweeps.
SLOW: dict[str, dict[str, Any]] = {
    "cohere": _LLAMA,
    "gemma2": _GEMMA,
    "gptj": {**_GPT2, "rotary_dim": 4},
    "granite": _LLAMA,
    "mixtral": {**_LLAMA, "num_local_experts": 4, "num_experts_per_tok": 2},
    "mpt": {**_TEXT, "d_model": 32, "n_heads": 4, "n_layers": 1, "max_seq_len": MAX_LENGTH},
    "olmo2": _LLAMA,
    "phi": _LLAMA,
    "qwen2": _LLAMA,
    "smollm3": _LLAMA,
    "stablelm": _LLAMA,
    "starcoder2": {**_LLAMA, "sliding_window": 4},
}
every_architecture = pytest.mark.parametrize(
    "name", [*ARCHITECTURES, *(pytest.param(name, marks=pytest.mark.slow) for name in SLOW)]
)
NEW_TOKENS = 9
# Two prompts; the shorter one starts with two padding tokens.
PROMPTS = torch.tensor([[0, 0, 43, 17, 25], [61, 12, 80, 33, 9]])
MASK = (PROMPTS != 0).to(torch.int64)
# Batch, tokens in the cache, new tokens, padding tokens of the first text.
SIZES = [(1, 0, 6, 0), (2, 5, 1, 0), (2, 4, 7, 0), (2, 0, 5, 3), (3, 6, 2, 2), (1, 0, 1, 0)]


def build(name: str) -> Any:
    """Return a model with random weights, in eval mode, without an end token."""
    torch.manual_seed(0)
    config = transformers.AutoConfig.for_model(name, **{**ARCHITECTURES, **SLOW}[name])
    model = transformers.AutoModelForCausalLM.from_config(config).eval()
    model.generation_config.eos_token_id = None
    return model


def generated(model: Any, prompts: torch.Tensor = PROMPTS, **keywords: Any) -> torch.Tensor:
    """Return the tokens that transformers generates."""
    return model.generate(
        prompts,
        attention_mask=(prompts != 0).to(torch.int64),
        do_sample=False,
        max_new_tokens=NEW_TOKENS,
        **keywords,
    )


def length_of(name: str) -> int | None:
    """Return the context length for BLOOM, whose configuration has none."""
    return MAX_LENGTH if name == "bloom" else None


Exporter = Callable[[str], tuple[Any, ortable.OnnxLanguageModel]]


@pytest.fixture(scope="module")
def exporter(tmp_path_factory: pytest.TempPathFactory) -> Exporter:
    """Return a function that exports a model once; one of the model's texts ends early."""

    @functools.cache
    def export_model(name: str) -> tuple[Any, ortable.OnnxLanguageModel]:
        model = build(name)
        end_token = int(generated(model)[1, PROMPTS.shape[1] + 3])
        model.generation_config.eos_token_id = [end_token, VOCABULARY - 1]
        folder = tmp_path_factory.mktemp("models") / name
        return model, ortable.export_language_model(
            model, folder, loop="greedy", logits="all", context_length=length_of(name)
        )

    return export_model


def run(path: Path, feeds: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Return the outputs of a model file by name."""
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    names = [value.name for value in session.get_outputs()]
    values = session.run(names, {name: value.numpy() for name, value in feeds.items()})
    return {name: torch.from_numpy(value) for name, value in zip(names, values, strict=True)}


@pytest.mark.alternates(parts=5)
@every_architecture
def test_tokens_are_those_of_generate(name: str, exporter: Exporter) -> None:
    model, exported = exporter(name)
    expected = generated(model)
    end_tokens = model.generation_config.eos_token_id
    assert torch.isin(expected, torch.tensor(end_tokens)).any(), "no text ends early"
    assert torch.equal(exported.generate(PROMPTS, MASK, max_new_tokens=NEW_TOKENS), expected)
    assert torch.equal(searched(exported.folder / "greedy_search.onnx"), expected)


@pytest.mark.alternates(parts=5)
@every_architecture
def test_one_graph_takes_prompts_tokens_and_pieces(name: str, exporter: Exporter) -> None:
    """One graph computes prompts, single tokens and chunks of a text."""
    model, exported = exporter(name)
    decoder = json.loads((exported.folder / "genai_config.json").read_text())["model"]["decoder"]
    heads, width = decoder["num_key_value_heads"], decoder["head_size"]
    for batch, past, sequence, padding in SIZES:
        mask = torch.ones(batch, past + sequence, dtype=torch.int64)
        mask[0, :padding] = 0
        cache = [
            (torch.randn(batch, heads, past, width), torch.randn(batch, heads, past, width))
            for _ in range(decoder["num_hidden_layers"])
        ]
        call = {
            "input_ids": torch.randint(3, VOCABULARY, (batch, sequence)),
            "attention_mask": mask,
            "position_ids": (mask.cumsum(-1) - 1).clamp(min=0)[:, -sequence:],
        }
        call = {key: value for key, value in call.items() if key in exported.input_names}
        past_key_values = {
            f"past_key_values.{index}.{kind}": value
            for index, pair in enumerate(cache)
            for kind, value in zip(("key", "value"), pair, strict=True)
        }
        feeds = {**call, **past_key_values}
        # ONNX Runtime's attention takes pieces of several texts one by one
        texts = [slice(n, n + 1) for n in range(batch)] if past and sequence > 1 else [slice(None)]
        parts = [
            run(exported.folder / "model.onnx", {k: v[rows] for k, v in feeds.items()})
            for rows in texts
        ]
        outputs = {name: torch.cat([part[name] for part in parts]) for name in parts[0]}
        with torch.no_grad():
            out = model(**call, **{CACHE: DynamicCache(cache)}, use_cache=True)
        expected = [out.logits]
        for layer in getattr(out, CACHE).layers:
            expected += [layer.keys, layer.values]
        names = [
            f"present.{index}.{kind}" for index in range(len(cache)) for kind in ("key", "value")
        ]
        assert_close([outputs[output] for output in ("logits", *names)], expected)


def test_steps_have_the_logits_of_the_whole_text(exporter: Exporter) -> None:
    """GPT-2 has a learned vector for each position, which exposes shifted positions."""
    model, exported = exporter("gpt2")
    texts, mask, cache = PROMPTS, MASK, None
    step = texts
    for token in ([[5], [7]], [[11], [13]]):
        logits, cache = exported.step(step, mask, cache)
        positions = (mask.cumsum(-1) - 1).clamp(min=0)
        with torch.no_grad():
            expected = model(input_ids=texts, attention_mask=mask, position_ids=positions).logits
        assert_close([logits[:, -1]], [expected[:, -1]])
        step = torch.tensor(token)
        texts, mask = torch.cat([texts, step], 1), torch.cat([mask, torch.ones_like(step)], 1)


def test_names_sizes_and_settings_are_those_of_genai(exporter: Exporter) -> None:
    _, result = exporter("llama")
    content = json.loads((result.folder / "genai_config.json").read_text())
    decoder = content["model"]["decoder"]
    past = [decoder["inputs"][f"past_{kind}_names"] for kind in ("key", "value")]
    present = [decoder["outputs"][f"present_{kind}_names"] for kind in ("key", "value")]
    layers = range(decoder["num_hidden_layers"])
    inputs = ["input_ids", "attention_mask", "position_ids"]
    assert [decoder["inputs"][name] for name in inputs] == inputs
    assert set(result.input_names) == {*inputs, *(name % i for name in past for i in layers)}
    assert set(result.output_names) == {
        "logits", *(name % i for name in present for i in layers)
    }  # fmt: skip
    graph = onnx.load(result.folder / decoder["filename"], load_external_data=False).graph
    sizes = {
        value.name: [dim.dim_param or dim.dim_value for dim in value.type.tensor_type.shape.dim]
        for value in (*graph.input, *graph.output)
    }
    total_length = "past_sequence_length + sequence_length"
    heads, width = decoder["num_key_value_heads"], decoder["head_size"]
    assert sizes["input_ids"] == ["batch_size", "sequence_length"]
    assert sizes["attention_mask"] == ["batch_size", total_length]
    assert sizes["past_key_values.0.value"] == ["batch_size", heads, "past_sequence_length", width]
    assert sizes["present.0.key"] == ["batch_size", heads, total_length, width]
    assert sizes["logits"] == ["batch_size", "sequence_length", content["model"]["vocab_size"]]
    assert content["search"]["past_present_share_buffer"] is True
    assert content["search"]["max_length"] == content["model"]["context_length"] == MAX_LENGTH


def test_tokens_that_a_model_does_not_have_are_not_named() -> None:
    """onnxruntime-genai does not accept null."""
    model = build("gpt2")
    model.generation_config.update(bos_token_id=None, eos_token_id=None, pad_token_id=5)
    config = genai_config(make_decoder(model), "model.onnx", None)["model"]
    assert {name: value for name, value in config.items() if "token" in name} == {"pad_token_id": 5}


@pytest.mark.slow
@pytest.mark.alternates(parts=4)
@pytest.mark.parametrize("name", ["bloom", "gemma3_text", "gpt2", "llama"])
def test_genai_generates_the_tokens_or_the_small_loop_does(name: str, exporter: Exporter) -> None:
    """genai 0.18 ignores padding, so the prompts have one length."""
    model, exported = exporter(name)
    prompts = torch.tensor([[43, 17, 25], [61, 12, 80]])
    expected = generated(model, prompts)
    if importlib.util.find_spec("onnxruntime_genai") is None:
        tokens = exported.generate(prompts, max_new_tokens=NEW_TOKENS)
    else:
        tokens = generate_with_genai(exported.folder, prompts)
    # A runtime may stop a text at its end, or pad it.
    for result, reference in zip(tokens.tolist(), expected.tolist(), strict=True):
        assert result[: len(reference)] == reference[: len(result)]


def generate_with_genai(folder: Path, prompts: torch.Tensor) -> torch.Tensor:
    import onnxruntime_genai

    model = onnxruntime_genai.Model(str(folder))
    parameters = onnxruntime_genai.GeneratorParams(model)
    length = prompts.shape[1] + NEW_TOKENS
    parameters.set_search_options(batch_size=len(prompts), max_length=length)
    generator = onnxruntime_genai.Generator(model, parameters)
    generator.append_tokens(prompts.numpy().astype(np.int32))
    while not generator.is_done():
        generator.generate_next_token()
    return torch.tensor([list(generator.get_sequence(row)) for row in range(len(prompts))])


@pytest.mark.alternates("name")
@pytest.mark.parametrize("name", ["gpt2", "mistral"])
def test_two_graphs_share_the_weights(name: str, tmp_path: Path) -> None:
    model = build(name)
    exported = ortable.export_language_model(model, tmp_path / "two", merged=False)
    files = {path.name for path in exported.folder.iterdir()}
    first, second = "decoder_model.onnx", "decoder_with_past_model.onnx"
    assert files == {first, second, f"{first}.data", "config.json", "generation_config.json"}
    weights = sum(
        value.nbytes for value in {v.data_ptr(): v for v in model.state_dict().values()}.values()
    )
    assert (exported.folder / f"{first}.data").stat().st_size < 1.2 * weights
    assert torch.equal(
        ortable.OnnxLanguageModel.load(exported.folder).generate(
            PROMPTS, MASK, max_new_tokens=NEW_TOKENS
        ),
        generated(model),
    )


@pytest.mark.slow
def test_dtypes_of_caches_and_weights(tmp_path: Path) -> None:
    float16_lm = build("llama").to(torch.float16)
    result = ortable.export_language_model(float16_lm, tmp_path / "half")
    logits, cache = result.step(PROMPTS, MASK)
    assert logits.dtype == torch.float16
    assert cache["0.key"].data_type() == "tensor(float16)"
    assert torch.equal(
        result.generate(PROMPTS, MASK, max_new_tokens=NEW_TOKENS), generated(float16_lm)
    )

    model = build("llama").to(torch.bfloat16)
    result = ortable.export_language_model(model, tmp_path / "brain", weights="float32")
    assert {value.dtype for value in model.parameters()} == {torch.bfloat16}, (
        "the export changed the model"
    )
    logits, cache = result.step(PROMPTS, MASK)
    assert logits.dtype == torch.float32 and cache["0.key"].data_type() == "tensor(float)"
    expected = generated(model.to(torch.float32))
    assert torch.equal(result.generate(PROMPTS, MASK, max_new_tokens=NEW_TOKENS), expected)


def test_weights_that_no_protobuf_file_holds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Weights above the limit (1.5 GiB, here 1 KB) stay in torch until they are written."""
    monkeypatch.setattr(
        importlib.import_module("ortable.exporter.to_onnx"), "LARGE_MODEL_BYTES", 1024
    )
    model = build("gpt2")
    exported = ortable.export_language_model(model, tmp_path / "model", loop="greedy")
    expected = generated(model)
    assert torch.equal(exported.generate(PROMPTS, MASK, max_new_tokens=NEW_TOKENS), expected)
    assert torch.equal(searched(exported.folder / "greedy_search.onnx"), expected)


def test_texts_end_as_they_are_told(exporter: Exporter) -> None:
    """Arguments of generate override the end token of the configuration."""
    model, exported = exporter("gpt2")
    unended = generated(build("gpt2"))
    token = int(unended[1, 6])
    arguments = {"max_new_tokens": NEW_TOKENS, "eos_token_id": token, "pad_token_id": 5}
    expected = model.generate(PROMPTS, attention_mask=MASK, do_sample=False, **arguments)
    assert torch.equal(exported.generate(PROMPTS, MASK, **arguments), expected)
    assert expected[1, -1] == 5
    endless = exported.generate(PROMPTS, MASK, max_new_tokens=NEW_TOKENS, eos_token_id=[])
    assert torch.equal(endless, unended)


@pytest.mark.slow
def test_repetitions_are_penalised_as_generate_does(tmp_path: Path) -> None:
    model = build("llama")
    unpenalised = generated(model)
    model.generation_config.repetition_penalty = 1.5
    expected = generated(model)
    assert not torch.equal(unpenalised, expected)
    exported = ortable.export_language_model(model, tmp_path / "model", loop="greedy")
    assert torch.equal(exported.generate(PROMPTS, MASK, max_new_tokens=NEW_TOKENS), expected)
    assert torch.equal(searched(exported.folder / "greedy_search.onnx"), expected)


def searched(path: Path, **inputs: torch.Tensor) -> torch.Tensor:
    """Run a model that contains the decoding loop on the prompts."""
    feeds = {"input_ids": PROMPTS, "attention_mask": MASK, **inputs}
    return run(path, {**feeds, "max_new_tokens": torch.tensor(NEW_TOKENS)})["sequences"]


@pytest.mark.slow
def test_tokens_are_drawn_by_the_numbers_that_are_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """transformers samples with torch.multinomial, which is replaced by the given numbers."""
    model = build("gpt2")
    settings = {"do_sample": True, "temperature": 1.7, "top_k": 20, "top_p": 0.9}
    model.generation_config.update(**settings, repetition_penalty=1.2, eos_token_id=40)
    exported = ortable.export_language_model(model, tmp_path / "model", loop="sample")
    random = torch.rand(NEW_TOKENS + 2, len(PROMPTS))
    rows = iter(random)

    def multinomial(probabilities: torch.Tensor, num_samples: int) -> torch.Tensor:
        assert num_samples == 1
        bounds = probabilities.cumsum(-1)
        return torch.searchsorted(bounds, next(rows)[:, None] * bounds[:, -1:], right=True)

    monkeypatch.setattr(torch, "multinomial", multinomial)
    expected = model.generate(PROMPTS, attention_mask=MASK, max_new_tokens=NEW_TOKENS)
    path = exported.folder / "sampled_search.onnx"
    assert torch.equal(searched(path, random=random), expected)
    tokens = searched(path, random=torch.ones_like(random))
    assert ((tokens >= 0) & (tokens < VOCABULARY)).all(), "outside the vocabulary"


def long_rope_model() -> Any:
    """Return a model whose frequencies change after 8 tokens, so that its cache is recomputed."""
    rope = {
        "rope_type": "longrope", "rope_theta": 10000.0, "short_factor": [1.0] * 4,
        "long_factor": [1e4] * 4, "original_max_position_embeddings": 8,
    }  # fmt: skip
    config = {**_LLAMA, "num_hidden_layers": 2, "original_max_position_embeddings": 8,
              "initializer_range": 0.3}  # fmt: skip
    torch.manual_seed(0)
    model = transformers.Phi3ForCausalLM(
        transformers.Phi3Config(**config, rope_parameters=rope)
    ).eval()
    model.generation_config.eos_token_id = None
    return model


@pytest.mark.slow
def test_a_cache_that_is_computed_anew(tmp_path: Path) -> None:
    model = long_rope_model()
    exported = ortable.export_language_model(model, tmp_path / "model", genai=False)
    expected = generated(model)
    assert torch.equal(exported.generate(PROMPTS, MASK, max_new_tokens=NEW_TOKENS), expected)
    (exported.folder / "config.json").unlink()  # The file holds the length.
    stale = ortable.OnnxLanguageModel.load(exported.folder)
    assert not torch.equal(stale.generate(PROMPTS, MASK, max_new_tokens=NEW_TOKENS), expected)
    with pytest.raises(ExportError, match=r"after 8 tokens .*the loop does not"):
        ortable.export_language_model(model, tmp_path / "other", genai=False, loop="greedy")
    with pytest.raises(ExportError, match=r"after 8 tokens .*genai=False"):
        ortable.export_language_model(model, tmp_path / "other")


def test_settings_that_are_not_followed_are_refused(tmp_path: Path) -> None:
    model = build("gpt2")
    model.generation_config.no_repeat_ngram_size = 2
    with pytest.raises(OptionError, match="no_repeat_ngram_size=2, which `generate` follows"):
        ortable.export_language_model(model, tmp_path / "model", loop="greedy")
    exported = ortable.export_language_model(model, tmp_path / "model")
    with pytest.raises(OptionError, match="no_repeat_ngram_size=2"):
        exported.generate(PROMPTS)
    model.generation_config.update(no_repeat_ngram_size=0, typical_p=0.5)
    with pytest.raises(OptionError, match=r"typical_p=0\.5"):
        ortable.export_language_model(model, tmp_path / "model", loop="sample")


@pytest.mark.slow
def test_a_folder_is_replaced_as_a_whole(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "notes.txt").write_text("mine")
    ortable.export_language_model(build("gpt2"), folder, merged=False)
    tokenizer = make_tokenizer()
    exported = ortable.export_language_model(
        build("gpt2"), folder, tokenizer=tokenizer, validate=True
    )
    files = {path.name for path in folder.iterdir()}
    model = {"model.onnx", "model.onnx.data", "genai_config.json"}
    configs = {"config.json", "generation_config.json"}
    assert files == {"notes.txt", "tokenizer.json", "tokenizer_config.json", *model, *configs}
    contents = {path.name: path.read_bytes() for path in folder.iterdir()}
    with pytest.raises(OptionError, match="give context_length"):
        ortable.export_language_model(build("bloom"), folder)
    assert contents == {path.name: path.read_bytes() for path in folder.iterdir()}
    assert [path.name for path in tmp_path.iterdir()] == ["model"], "a temporary file is left"
    assert exported.folder == folder


def make_tokenizer() -> Any:
    import tokenizers

    word_level = tokenizers.models.WordLevel({"<unk>": 0, "a": 1, "b": 2}, unk_token="<unk>")
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizers.Tokenizer(word_level), unk_token="<unk>"
    )


def encoder() -> Any:
    return transformers.BertLMHeadModel(transformers.BertConfig(**_LLAMA)).eval()


def mini_max() -> Any:
    config = transformers.MiniMaxConfig(**_LLAMA, num_local_experts=2, block_size=4)
    return transformers.MiniMaxForCausalLM(config).eval()


def indexed() -> Any:
    """Return a model whose layers cache a third tensor, the keys of an indexer."""
    config = transformers.DeepseekV32Config(
        **{**_LLAMA, "num_key_value_heads": 4}, q_lora_rank=8, kv_lora_rank=8, qk_rope_head_dim=4,
        qk_nope_head_dim=8, v_head_dim=8, first_k_dense_replace=1, index_n_heads=2,
        index_head_dim=8, index_topk=4,
    )  # fmt: skip
    return transformers.DeepseekV32ForCausalLM(config).eval()


def latent() -> Any:
    """Return a model whose keys are wider than its values."""
    config = transformers.DeepseekV3Config(
        **{**_LLAMA, "num_key_value_heads": 4}, q_lora_rank=8, kv_lora_rank=8, qk_rope_head_dim=4,
        qk_nope_head_dim=8, v_head_dim=8, first_k_dense_replace=1,
    )  # fmt: skip
    return transformers.DeepseekV3ForCausalLM(config).eval()


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: torch.nn.Linear(2, 3), InputError, "generates text.*not Linear"),
        (lambda: build("gpt2").train(), InputError, r"call model\.eval\(\)"),
        (lambda: build("gpt2").to("meta"), InputError, "without data"),
        (encoder, ExportError, "BertLMHeadModel returns no cache.*is_decoder=True"),
        (mini_max, ExportError, "the cache of MiniMaxForCausalLM is a MiniMaxCache, not a Dynamic"),
        (indexed, ExportError, "layer 0 of the cache of DeepseekV32ForCausalLM is a .*no names"),
        (latent, ExportError, "width of values.*genai=False"),
    ],
)
def test_what_is_no_conversation_is_refused(make, error, message, tmp_path: Path) -> None:
    """Models that generate no text, or have no supported cache, are refused."""
    with pytest.raises(error, match=message):
        ortable.export_language_model(make(), tmp_path / "model")
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_a_cache_that_genai_does_not_take_is_written_without_its_file(tmp_path: Path) -> None:
    model = latent()
    model.generation_config.eos_token_id = None
    result = ortable.export_language_model(model, tmp_path / "model", genai=False)
    assert not (result.folder / "genai_config.json").exists()
    assert torch.equal(result.generate(PROMPTS, MASK, max_new_tokens=NEW_TOKENS), generated(model))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"weights": "int3"}, "weights is None, 'keep'.*'int8'.*'int3'"),
        ({"loop": "beam"}, "loop is None or one of .*'greedy', 'sample'.*'beam'"),
        ({"merged": 1}, "merged is True or False"),
        ({"context_length": 0}, "context_length is a number of tokens"),
    ],
)
def test_options_are_checked(options, message, tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=message):
        ortable.export_language_model(build("gpt2"), tmp_path / "model", **options)


def test_what_the_runner_is_given_is_checked(exporter: Exporter, tmp_path: Path) -> None:
    """OnnxLanguageModel checks its arguments, and its exporter checks the folder."""
    _, exported = exporter("gpt2")
    with pytest.raises(InputError, match=r"integers \(batch, sequence\), not .*shape \(2,\)"):
        exported.generate(torch.tensor([1, 2]))
    with pytest.raises(InputError, match=r"integers .*not torch\.float32"):
        exported.generate(torch.ones(1, 2))
    with pytest.raises(InputError, match="attention_mask has the shape"):
        exported.generate(PROMPTS, MASK[:, :2])
    with pytest.raises(OptionError, match="max_new_tokens is a number"):
        exported.generate(PROMPTS, max_new_tokens=0)
    with pytest.raises(OptionError, match="does not take 'num_beams' for a causal model"):
        exported.generate(PROMPTS, num_beams=2)
    (tmp_path / "generation_config.json").write_text("[")
    broken = ortable.OnnxLanguageModel(tmp_path, exported.files, exported.providers)
    with pytest.raises(
        InputError, match=r"generation_config\.json' is not a JSON file of settings"
    ):
        broken.generate(PROMPTS)
    with pytest.raises(InputError, match=r"has neither model\.onnx nor"):
        ortable.OnnxLanguageModel.load(tmp_path)
    with pytest.raises(ExportError, match="does not exist"):
        ortable.export_language_model(build("gpt2"), tmp_path / "no" / "folder")
    (tmp_path / "file").write_text("")
    with pytest.raises(ExportError, match="is a file"):
        ortable.export_language_model(build("gpt2"), tmp_path / "file")
