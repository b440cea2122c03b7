"""export_language_model: one graph is right for prompts, single tokens and pieces of a text; its
tokens, and those of the loop that is one model, are those of ``generate``; the folder is what
onnxruntime-genai reads."""

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

VOCABULARY, LONGEST = 97, 64
_TEXT = {"vocab_size": VOCABULARY, "bos_token_id": 1, "eos_token_id": None, "pad_token_id": 0}
_GPT2 = {**_TEXT, "n_layer": 1, "n_head": 4, "n_embd": 32, "n_positions": LONGEST}
_LLAMA = {
    **_TEXT, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1,
    "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": LONGEST,
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
        "num_attention_heads": 4, "max_position_embeddings": LONGEST, "word_embed_proj_dim": 32,
    },
    "phi3": _LLAMA,
    "qwen3": {**_LLAMA, "head_dim": 8},
}  # fmt: skip
# Run with the sweeps.
OTHERS: dict[str, dict[str, Any]] = {
    "cohere": _LLAMA,
    "gemma2": _GEMMA,
    "gptj": {**_GPT2, "rotary_dim": 4},
    "granite": _LLAMA,
    "mixtral": {**_LLAMA, "num_local_experts": 4, "num_experts_per_tok": 2},
    "mpt": {**_TEXT, "d_model": 32, "n_heads": 4, "n_layers": 1, "max_seq_len": LONGEST},
    "olmo2": _LLAMA,
    "phi": _LLAMA,
    "qwen2": _LLAMA,
    "smollm3": _LLAMA,
    "stablelm": _LLAMA,
    "starcoder2": {**_LLAMA, "sliding_window": 4},
}
every_architecture = pytest.mark.parametrize(
    "name", [*ARCHITECTURES, *(pytest.param(name, marks=pytest.mark.slow) for name in OTHERS)]
)
NEW_TOKENS = 9
# Two prompts, the first one shorter: two tokens of it only fill.
PROMPTS = torch.tensor([[0, 0, 43, 17, 25], [61, 12, 80, 33, 9]])
MASK = (PROMPTS != 0).to(torch.int64)
# Batch, tokens in the cache, new tokens, and tokens of the first text that only fill.
SIZES = [(1, 0, 6, 0), (2, 5, 1, 0), (2, 4, 7, 0), (2, 0, 5, 3), (3, 6, 2, 2), (1, 0, 1, 0)]


def build(name: str) -> Any:
    """A model with random weights, in eval mode, whose texts end with no token."""
    torch.manual_seed(0)
    config = transformers.AutoConfig.for_model(name, **{**ARCHITECTURES, **OTHERS}[name])
    model = transformers.AutoModelForCausalLM.from_config(config).eval()
    model.generation_config.eos_token_id = None
    return model


def generated(model: Any, prompts: torch.Tensor = PROMPTS, **keywords: Any) -> torch.Tensor:
    """The tokens of transformers."""
    return model.generate(
        prompts,
        attention_mask=(prompts != 0).to(torch.int64),
        do_sample=False,
        max_new_tokens=NEW_TOKENS,
        **keywords,
    )


def length_of(name: str) -> int | None:
    """BLOOM's configuration has none, and says so in an error."""
    return LONGEST if name == "bloom" else None


Exported = Callable[[str], tuple[Any, ortable.OnnxLanguageModel]]


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Exported:
    """A model one of whose texts ends early, and its folder; each is exported once."""

    @functools.cache
    def made(name: str) -> tuple[Any, ortable.OnnxLanguageModel]:
        model = build(name)
        ends = int(generated(model)[1, PROMPTS.shape[1] + 3])
        model.generation_config.eos_token_id = [ends, VOCABULARY - 1]
        folder = tmp_path_factory.mktemp("models") / name
        return model, ortable.export_language_model(
            model, folder, loop="greedy", context_length=length_of(name)
        )

    return made


def run(path: Path, feeds: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Outputs of a model in a file, by name."""
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    names = [value.name for value in session.get_outputs()]
    values = session.run(names, {name: value.numpy() for name, value in feeds.items()})
    return {name: torch.from_numpy(value) for name, value in zip(names, values, strict=True)}


@pytest.mark.alternates(parts=5)
@every_architecture
def test_tokens_are_those_of_generate(name: str, exported: Exported) -> None:
    model, made = exported(name)
    expected = generated(model)
    ends = model.generation_config.eos_token_id
    assert torch.isin(expected, torch.tensor(ends)).any(), "a text ends"
    assert torch.equal(made.generate(PROMPTS, MASK, max_new_tokens=NEW_TOKENS), expected)
    assert torch.equal(searched(made.folder / "greedy_search.onnx"), expected)


@pytest.mark.alternates(parts=5)
@every_architecture
def test_one_graph_takes_prompts_tokens_and_pieces(name: str, exported: Exported) -> None:
    model, made = exported(name)
    layers = json.loads((made.folder / "genai_config.json").read_text())["model"]["decoder"]
    heads, width = layers["num_key_value_heads"], layers["head_size"]
    for batch, past, sequence, filling in SIZES:
        mask = torch.ones(batch, past + sequence, dtype=torch.int64)
        mask[0, :filling] = 0
        cache = [
            (torch.randn(batch, heads, past, width), torch.randn(batch, heads, past, width))
            for _ in range(layers["num_hidden_layers"])
        ]
        call = {
            "input_ids": torch.randint(3, VOCABULARY, (batch, sequence)),
            "attention_mask": mask,
            "position_ids": (mask.cumsum(-1) - 1).clamp(min=0)[:, -sequence:],
        }
        call = {key: value for key, value in call.items() if key in made.input_names}
        past_key_values = {
            f"past_key_values.{number}.{kind}": value
            for number, pair in enumerate(cache)
            for kind, value in zip(("key", "value"), pair, strict=True)
        }
        found = run(made.folder / "model.onnx", {**call, **past_key_values})
        with torch.no_grad():
            out = model(**call, **{CACHE: DynamicCache(cache)}, use_cache=True)
        expected = [out.logits]
        for layer in getattr(out, CACHE).layers:
            expected += [layer.keys, layer.values]
        names = [
            f"present.{number}.{kind}" for number in range(len(cache)) for kind in ("key", "value")
        ]
        assert_close([found[each] for each in ("logits", *names)], expected)


def test_steps_have_the_logits_of_the_whole_text(exported: Exported) -> None:
    """GPT-2 learns a vector for each position, so that a shift of all of them shows."""
    model, made = exported("gpt2")
    texts, mask, cache = PROMPTS, MASK, None
    step = texts
    for token in ([[5], [7]], [[11], [13]]):
        logits, cache = made.step(step, mask, cache)
        positions = (mask.cumsum(-1) - 1).clamp(min=0)
        with torch.no_grad():
            whole = model(input_ids=texts, attention_mask=mask, position_ids=positions).logits
        assert_close([logits[:, -1]], [whole[:, -1]])
        step = torch.tensor(token)
        texts, mask = torch.cat([texts, step], 1), torch.cat([mask, torch.ones_like(step)], 1)


def test_names_sizes_and_settings_are_those_of_genai(exported: Exported) -> None:
    _, made = exported("llama")
    content = json.loads((made.folder / "genai_config.json").read_text())
    decoder = content["model"]["decoder"]
    past = [decoder["inputs"][f"past_{kind}_names"] for kind in ("key", "value")]
    present = [decoder["outputs"][f"present_{kind}_names"] for kind in ("key", "value")]
    numbers = range(decoder["num_hidden_layers"])
    text = ["input_ids", "attention_mask", "position_ids"]
    assert [decoder["inputs"][name] for name in text] == text
    assert set(made.input_names) == {*text, *(name % number for name in past for number in numbers)}
    assert set(made.output_names) == {
        "logits", *(name % number for name in present for number in numbers)
    }  # fmt: skip
    graph = onnx.load(made.folder / decoder["filename"], load_external_data=False).graph
    sizes = {
        value.name: [dim.dim_param or dim.dim_value for dim in value.type.tensor_type.shape.dim]
        for value in (*graph.input, *graph.output)
    }
    total = "past_sequence_length + sequence_length"
    heads, width = decoder["num_key_value_heads"], decoder["head_size"]
    assert sizes["input_ids"] == ["batch_size", "sequence_length"]
    assert sizes["attention_mask"] == ["batch_size", total]
    assert sizes["past_key_values.0.value"] == ["batch_size", heads, "past_sequence_length", width]
    assert sizes["present.0.key"] == ["batch_size", heads, total, width]
    assert sizes["logits"] == ["batch_size", "sequence_length", content["model"]["vocab_size"]]
    assert content["search"]["past_present_share_buffer"] is False
    assert content["search"]["max_length"] == content["model"]["context_length"] == LONGEST


def test_tokens_that_a_model_does_not_have_are_not_named() -> None:
    """onnxruntime-genai reads no null."""
    model = build("gpt2")
    model.generation_config.update(bos_token_id=None, eos_token_id=None, pad_token_id=5)
    written = genai_config(make_decoder(model), "model.onnx", None)["model"]
    assert {name: each for name, each in written.items() if "token" in name} == {"pad_token_id": 5}


@pytest.mark.slow
@pytest.mark.alternates(parts=4)
@pytest.mark.parametrize("name", ["bloom", "gemma3_text", "gpt2", "llama"])
def test_genai_generates_the_tokens_or_the_small_loop_does(name: str, exported: Exported) -> None:
    """genai 0.18 takes every token of a prompt for visible: the prompts have one length."""
    model, made = exported(name)
    prompts = torch.tensor([[43, 17, 25], [61, 12, 80]])
    expected = generated(model, prompts)
    if importlib.util.find_spec("onnxruntime_genai") is None:
        found = made.generate(prompts, max_new_tokens=NEW_TOKENS)
    else:
        found = generated_by_genai(made.folder, prompts)
    # a runtime may stop a text that has ended, where others are filled up
    for row, wanted in zip(found.tolist(), expected.tolist(), strict=True):
        assert row[: len(wanted)] == wanted[: len(row)]


def generated_by_genai(folder: Path, prompts: torch.Tensor) -> torch.Tensor:
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
    made = ortable.export_language_model(model, tmp_path / "two", merged=False)
    files = {path.name for path in made.folder.iterdir()}
    first, other = "decoder_model.onnx", "decoder_with_past_model.onnx"
    assert files == {first, other, f"{first}.data", "config.json", "generation_config.json"}
    weights = sum(
        value.nbytes for value in {v.data_ptr(): v for v in model.state_dict().values()}.values()
    )
    assert (made.folder / f"{first}.data").stat().st_size < 1.2 * weights
    assert torch.equal(
        ortable.OnnxLanguageModel.load(made.folder).generate(
            PROMPTS, MASK, max_new_tokens=NEW_TOKENS
        ),
        generated(model),
    )


@pytest.mark.slow
def test_dtypes_of_caches_and_weights(tmp_path: Path) -> None:
    half = build("llama").to(torch.float16)
    made = ortable.export_language_model(half, tmp_path / "half")
    logits, cache = made.step(PROMPTS, MASK)
    assert logits.dtype == torch.float16
    assert cache["0.key"].data_type() == "tensor(float16)"
    assert torch.equal(made.generate(PROMPTS, MASK, max_new_tokens=NEW_TOKENS), generated(half))

    brain = build("llama").to(torch.bfloat16)
    made = ortable.export_language_model(brain, tmp_path / "brain", weights="float32")
    assert {value.dtype for value in brain.parameters()} == {torch.bfloat16}, "it is not changed"
    logits, cache = made.step(PROMPTS, MASK)
    assert logits.dtype == torch.float32 and cache["0.key"].data_type() == "tensor(float)"
    expected = generated(brain.to(torch.float32))
    assert torch.equal(made.generate(PROMPTS, MASK, max_new_tokens=NEW_TOKENS), expected)


def test_weights_that_no_protobuf_file_holds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """1.5 GiB or more stay in torch until they are written: here 1 KB."""
    monkeypatch.setattr(
        importlib.import_module("ortable.exporter.to_onnx"), "LARGE_MODEL_BYTES", 1024
    )
    model = build("gpt2")
    made = ortable.export_language_model(model, tmp_path / "model", loop="greedy")
    expected = generated(model)
    assert torch.equal(made.generate(PROMPTS, MASK, max_new_tokens=NEW_TOKENS), expected)
    assert torch.equal(searched(made.folder / "greedy_search.onnx"), expected)


def test_texts_end_as_they_are_told(exported: Exported) -> None:
    model, made = exported("gpt2")
    whole = generated(build("gpt2"))
    token = int(whole[1, 6])
    arguments = {"max_new_tokens": NEW_TOKENS, "eos_token_id": token, "pad_token_id": 5}
    expected = model.generate(PROMPTS, attention_mask=MASK, do_sample=False, **arguments)
    assert torch.equal(made.generate(PROMPTS, MASK, **arguments), expected)
    assert expected[1, -1] == 5
    endless = made.generate(PROMPTS, MASK, max_new_tokens=NEW_TOKENS, eos_token_id=[])
    assert torch.equal(endless, whole)


@pytest.mark.slow
def test_repetitions_are_penalised_as_generate_does(tmp_path: Path) -> None:
    model = build("llama")
    plain = generated(model)
    model.generation_config.repetition_penalty = 1.5
    expected = generated(model)
    assert not torch.equal(plain, expected)
    made = ortable.export_language_model(model, tmp_path / "model", loop="greedy")
    assert torch.equal(made.generate(PROMPTS, MASK, max_new_tokens=NEW_TOKENS), expected)
    assert torch.equal(searched(made.folder / "greedy_search.onnx"), expected)


def searched(path: Path, **more: torch.Tensor) -> torch.Tensor:
    """What a model that is the whole loop makes of the prompts."""
    feeds = {"input_ids": PROMPTS, "attention_mask": MASK, **more}
    return run(path, {**feeds, "max_new_tokens": torch.tensor(NEW_TOKENS)})["sequences"]


@pytest.mark.slow
def test_tokens_are_drawn_by_the_numbers_that_are_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """transformers draws with torch.multinomial: here by the same numbers."""
    model = build("gpt2")
    settings = {"do_sample": True, "temperature": 1.7, "top_k": 20, "top_p": 0.9}
    model.generation_config.update(**settings, repetition_penalty=1.2, eos_token_id=40)
    made = ortable.export_language_model(model, tmp_path / "model", loop="sample")
    random = torch.rand(NEW_TOKENS + 2, len(PROMPTS))
    numbers = iter(random)

    def multinomial(probabilities: torch.Tensor, num_samples: int) -> torch.Tensor:
        assert num_samples == 1
        ends = probabilities.cumsum(-1)
        return torch.searchsorted(ends, next(numbers)[:, None] * ends[:, -1:], right=True)

    monkeypatch.setattr(torch, "multinomial", multinomial)
    expected = model.generate(PROMPTS, attention_mask=MASK, max_new_tokens=NEW_TOKENS)
    path = made.folder / "sampled_search.onnx"
    assert torch.equal(searched(path, random=random), expected)
    ones = searched(path, random=torch.ones_like(random))
    assert ((ones >= 0) & (ones < VOCABULARY)).all(), "a number that is not below 1 is the last"


def long_rope() -> Any:
    """Frequencies change after 8 tokens, and `generate` then computes the cache anew."""
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
    model = long_rope()
    made = ortable.export_language_model(model, tmp_path / "model", genai=False)
    expected = generated(model)
    assert torch.equal(made.generate(PROMPTS, MASK, max_new_tokens=NEW_TOKENS), expected)
    (made.folder / "config.json").unlink()  # which says so
    never = ortable.OnnxLanguageModel.load(made.folder)
    assert not torch.equal(never.generate(PROMPTS, MASK, max_new_tokens=NEW_TOKENS), expected)
    with pytest.raises(ExportError, match=r"after 8 tokens .*the loop does not"):
        ortable.export_language_model(model, tmp_path / "other", genai=False, loop="greedy")
    with pytest.raises(ExportError, match=r"after 8 tokens .*genai=False"):
        ortable.export_language_model(model, tmp_path / "other")


def test_settings_that_are_not_followed_are_refused(tmp_path: Path) -> None:
    model = build("gpt2")
    model.generation_config.no_repeat_ngram_size = 2
    with pytest.raises(OptionError, match="no_repeat_ngram_size=2, which `generate` follows"):
        ortable.export_language_model(model, tmp_path / "model", loop="greedy")
    made = ortable.export_language_model(model, tmp_path / "model")
    with pytest.raises(OptionError, match="no_repeat_ngram_size=2"):
        made.generate(PROMPTS)
    model.generation_config.update(no_repeat_ngram_size=0, typical_p=0.5)
    with pytest.raises(OptionError, match=r"typical_p=0\.5"):
        ortable.export_language_model(model, tmp_path / "model", loop="sample")


@pytest.mark.slow
def test_a_folder_is_replaced_as_a_whole(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "notes.txt").write_text("mine")
    ortable.export_language_model(build("gpt2"), folder, merged=False)
    tokenizer = small_tokenizer()
    made = ortable.export_language_model(build("gpt2"), folder, tokenizer=tokenizer, validate=True)
    kept = {path.name for path in folder.iterdir()}
    model = {"model.onnx", "model.onnx.data", "genai_config.json"}
    settings = {"config.json", "generation_config.json"}
    assert kept == {"notes.txt", "tokenizer.json", "tokenizer_config.json", *model, *settings}
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    with pytest.raises(OptionError, match="give context_length"):
        ortable.export_language_model(build("bloom"), folder)
    assert before == {path.name: path.read_bytes() for path in folder.iterdir()}
    assert [path.name for path in tmp_path.iterdir()] == ["model"], "nothing is left beside it"
    assert made.folder == folder


def small_tokenizer() -> Any:
    import tokenizers

    words = tokenizers.models.WordLevel({"<unk>": 0, "a": 1, "b": 2}, unk_token="<unk>")
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizers.Tokenizer(words), unk_token="<unk>"
    )


def mamba() -> Any:
    config = transformers.MambaConfig(vocab_size=VOCABULARY, hidden_size=16, num_hidden_layers=1)
    return transformers.MambaForCausalLM(config).eval()


def encoder() -> Any:
    return transformers.BertLMHeadModel(transformers.BertConfig(**_LLAMA)).eval()


def mini_max() -> Any:
    config = transformers.MiniMaxConfig(**_LLAMA, num_local_experts=2, block_size=4)
    return transformers.MiniMaxForCausalLM(config).eval()


def hybrid() -> Any:
    config = transformers.Lfm2Config(
        **{**_LLAMA, "num_hidden_layers": 2}, layer_types=["conv", "full_attention"]
    )
    return transformers.Lfm2ForCausalLM(config).eval()


def translator() -> Any:
    config = transformers.T5Config(
        vocab_size=VOCABULARY, d_model=16, d_kv=8, d_ff=16, num_layers=1, num_heads=2
    )
    return transformers.T5ForConditionalGeneration(config).eval()


def latent() -> Any:
    """Keys are wider than values."""
    config = transformers.DeepseekV3Config(
        **{**_LLAMA, "num_key_value_heads": 4}, q_lora_rank=8, kv_lora_rank=8, qk_rope_head_dim=4,
        qk_nope_head_dim=8, v_head_dim=8, first_k_dense_replace=1,
    )  # fmt: skip
    return transformers.DeepseekV3ForCausalLM(config).eval()


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: torch.nn.Linear(2, 3), InputError, "generates text.*not Linear"),
        (lambda: build("gpt2").train(), InputError, r"call model\.eval\(\)"),
        (lambda: build("gpt2").to("meta"), InputError, "without data"),
        (translator, ExportError, "an encoder and a decoder"),
        (mamba, ExportError, "does not take past_key_values|the cache of Mamba"),
        (encoder, ExportError, "BertLMHeadModel returns no cache.*is_decoder=True"),
        (mini_max, ExportError, "the cache of MiniMaxForCausalLM is a MiniMaxCache, not a Dynamic"),
        (hybrid, ExportError, "layer 0 of the cache of Lfm2ForCausalLM is a .*no names"),
        (latent, ExportError, "width of values.*genai=False"),
    ],
)
def test_what_is_no_conversation_is_refused(make, error, words, tmp_path: Path) -> None:
    with pytest.raises(error, match=words):
        ortable.export_language_model(make(), tmp_path / "model")
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_a_cache_that_genai_does_not_take_is_written_without_its_file(tmp_path: Path) -> None:
    model = latent()
    model.generation_config.eos_token_id = None
    made = ortable.export_language_model(model, tmp_path / "model", genai=False)
    assert not (made.folder / "genai_config.json").exists()
    assert torch.equal(made.generate(PROMPTS, MASK, max_new_tokens=NEW_TOKENS), generated(model))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"weights": "int3"}, "weights is None, 'keep'.*'int8'.*'int3'"),
        ({"loop": "beam"}, "loop is None or one of .*'greedy', 'sample'.*'beam'"),
        ({"merged": 1}, "merged is True or False"),
        ({"context_length": 0}, "context_length is a number of tokens"),
    ],
)
def test_options_are_checked(options, words, tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=words):
        ortable.export_language_model(build("gpt2"), tmp_path / "model", **options)


def test_what_the_runner_is_given_is_checked(exported: Exported, tmp_path: Path) -> None:
    _, made = exported("gpt2")
    with pytest.raises(InputError, match=r"integers \(batch, sequence\), not .*shape \(2,\)"):
        made.generate(torch.tensor([1, 2]))
    with pytest.raises(InputError, match=r"integers .*not torch\.float32"):
        made.generate(torch.ones(1, 2))
    with pytest.raises(InputError, match="attention_mask has the shape"):
        made.generate(PROMPTS, MASK[:, :2])
    with pytest.raises(OptionError, match="max_new_tokens is a number"):
        made.generate(PROMPTS, max_new_tokens=0)
    (tmp_path / "generation_config.json").write_text("[")
    broken = ortable.OnnxLanguageModel(tmp_path, made.files, made.providers)
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
