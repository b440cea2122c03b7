"""Export of language models with a cache, compared with eager and with ``generate``.

A test run covers half of the decoders, chosen by the commit; the sweeps run the other half.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers.cache_utils import DynamicCache
from transformers.integrations.executorch import register_dynamic_cache_export_support

import ortable
from ortable.compat.torch import pytree, unregister_pytree

from .helpers import assert_close
from .language_models import (
    DECODERS,
    DYNAMIC,
    ENCODER_DECODERS,
    HEADS,
    LAYERS,
    VOCABULARY,
    StaticDecoder,
    build,
    call,
    exported_decoder,
    exported_encoder_decoder,
    flattened,
    greedy,
    random_cache,
    sample_of_encoder,
    session_of,
)

pytestmark = pytest.mark.alternates(parts=3)

EXAMPLE = Path(__file__).parents[2] / "examples" / "greedy_llama.py"
# (batch, sequence, past); the graphs are exported with (2, 3, 4)
SIZES = [(2, 3, 4), (1, 1, 7), (1, 5, 0), (3, 1, 1), (1, 1, 0), (2, 9, 3)]


@pytest.mark.alternates("name", parts=2)
@pytest.mark.parametrize("name", DECODERS)
def test_one_graph_takes_prompts_and_single_tokens(name: str) -> None:
    decoder, session = exported_decoder(name)
    for sizes in SIZES:
        example = decoder.example(*sizes)
        with torch.no_grad():
            logits, cache = decoder(*example)
        assert_close(call(session, example), [logits, *cache])


@pytest.mark.alternates("name", parts=2)
@pytest.mark.parametrize("name", DECODERS)
def test_greedy_decoding_gives_the_tokens_of_generate(name: str) -> None:
    decoder, session = exported_decoder(name)
    prompt = torch.randint(3, VOCABULARY, (2, 5))
    expected = decoder.model.generate(
        prompt, attention_mask=torch.ones_like(prompt), do_sample=False, max_new_tokens=8
    )

    def step(tokens: torch.Tensor, cache: list[torch.Tensor]) -> list[torch.Tensor]:
        past, (batch, length) = cache[0].shape[2], tokens.shape
        mask = torch.ones(batch, past + length, dtype=torch.int64)
        positions = torch.arange(past, past + length).repeat(batch, 1)
        return call(session, (tokens, mask, positions, cache))

    assert torch.equal(greedy(step, prompt, decoder.example(2, 1, 0)[3], 8), expected)


@pytest.mark.parametrize("name", ["gpt2", "llama", "mistral"])
def test_texts_padded_on_the_left_are_decoded_together(name: str) -> None:
    decoder, session = exported_decoder(name)
    prompt = torch.randint(3, VOCABULARY, (3, 6))
    prompt_mask = torch.ones_like(prompt)
    prompt_mask[0, :3] = prompt_mask[1, :1] = 0
    prompt = prompt * prompt_mask
    expected = decoder.model.generate(
        prompt, attention_mask=prompt_mask, do_sample=False, max_new_tokens=6
    )

    def step(tokens: torch.Tensor, cache: list[torch.Tensor]) -> list[torch.Tensor]:
        new = torch.ones(3, cache[0].shape[2] + tokens.shape[1] - 6, dtype=torch.int64)
        mask = torch.cat([prompt_mask, new], dim=1)
        positions = (mask.cumsum(-1) - 1).clamp(min=0)[:, -tokens.shape[1] :]
        return call(session, (tokens, mask, positions, cache))

    assert torch.equal(greedy(step, prompt, decoder.example(3, 1, 0)[3], 6), expected)


@pytest.mark.parametrize("name", ["gpt2", "gemma2"])
def test_a_prompt_in_pieces_equals_the_whole(name: str) -> None:
    decoder, session = exported_decoder(name)
    tokens, mask, positions, _ = decoder.example(2, 9, 0)
    empty = decoder.example(2, 9, 0)[3]
    expected = call(session, (tokens, mask, positions, empty))
    logits, cache, start = [], empty, 0
    for length in (4, 1, 3, 1):
        end = start + length
        span = slice(start, end)
        part, *cache = call(session, (tokens[:, span], mask[:, :end], positions[:, span], cache))
        logits.append(part)
        start = end
    assert_close([torch.cat(logits, dim=1), *cache], expected)


@pytest.mark.parametrize("name", ENCODER_DECODERS)
def test_encoder_once_then_the_decoder_with_both_caches(name: str) -> None:
    model, encoder, decoder = exported_encoder_decoder(name)
    encoder_input = sample_of_encoder(name, 3, length=11)
    expected = model.generate(encoder_input, do_sample=False, max_new_tokens=7)
    hidden, *cross_cache = call(encoder, (encoder_input,))

    def step(tokens: torch.Tensor, cache: list[torch.Tensor]) -> list[torch.Tensor]:
        return call(decoder, (tokens, hidden, cache, cross_cache))

    start = torch.full((3, 1), model.config.decoder_start_token_id)
    generated = greedy(step, start, random_cache(3, HEADS, 0), 7)
    assert torch.equal(generated[:, -expected.shape[1] :], expected)


def test_a_cache_of_fixed_length_is_written_in_place() -> None:
    model, heads = StaticDecoder(build("llama")), 2
    converted = ortable.to_onnx(
        model,
        (torch.zeros(2, 3, dtype=torch.int64), torch.tensor(5), random_cache(2, heads, 16)),
        dynamic_shapes=(
            {0: "batch", 1: "sequence"}, None, [{0: "batch"}] * (2 * LAYERS),
        ),
    )  # fmt: skip
    cache_outputs = [f"cache_{index}_mutated" for index in range(2 * LAYERS)]
    assert [output.name for output in converted.graph.output] == ["output_0", *cache_outputs]
    session = session_of(converted)
    for batch, length, position in ((2, 3, 5), (1, 1, 0), (3, 2, 9)):
        tokens = torch.randint(3, VOCABULARY, (batch, length))
        cache = random_cache(batch, heads, 16)
        results = call(session, (tokens, torch.tensor(position), [t.clone() for t in cache]))
        with torch.no_grad():
            logits = model(tokens, torch.tensor(position), cache)
        assert_close(results, [logits, *cache])


@pytest.fixture
def registered_cache() -> Iterator[None]:
    """Register DynamicCache for one test as torch's executorch does, with its order of tensors."""
    was_registered = DynamicCache in pytree.SUPPORTED_NODES
    register_dynamic_cache_export_support()
    yield
    if not was_registered:
        unregister_pytree(DynamicCache)


@pytest.mark.usefixtures("registered_cache")
def test_a_cache_object_is_an_argument_and_a_result() -> None:
    model = build("llama")

    def arguments(batch: int, length: int, past: int) -> tuple[dict[str, Any], list[torch.Tensor]]:
        flat = random_cache(batch, 2, past)
        cache = DynamicCache(list(zip(flat[::2], flat[1::2], strict=True)))
        tokens = torch.randint(3, VOCABULARY, (batch, length))
        mask = torch.ones(batch, past + length, dtype=torch.int64)
        # torch flattens a cache into the keys of all layers, then the values
        leaves = [tokens, mask, *flat[::2], *flat[1::2]]
        return {
            "input_ids": tokens, "attention_mask": mask, "past_key_values": cache
        }, leaves  # fmt: skip

    batch, sequence, past = (torch.export.Dim(name) for name in ("batch", "sequence", "past"))
    layers = [{0: batch, 2: past}] * LAYERS
    converted = ortable.to_onnx(
        model,
        kwargs=arguments(2, 3, 4)[0],
        dynamic_shapes={
            "input_ids": {0: batch, 1: sequence},
            "attention_mask": {0: batch, 1: DYNAMIC},
            "past_key_values": [layers, layers],
        },
    )
    session = session_of(converted)
    for sizes in ((2, 3, 4), (1, 1, 6), (1, 4, 0)):
        kwargs, leaves = arguments(*sizes)
        results = call(session, leaves)
        with torch.no_grad():
            out = model(**kwargs)
        cache = flattened(out.past_key_values)
        assert_close(results, [out.logits, *cache[::2], *cache[1::2]])


def test_the_example_decodes_as_torch_does(capsys: pytest.CaptureFixture[str]) -> None:
    spec = importlib.util.spec_from_file_location("greedy_llama", EXAMPLE)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.main() == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 5 and len(lines[0].split()) == 2 + 6 + 12
