"""Guessed tokens change the number of steps and never the tokens, which are those of `generate`."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

import ortable
from ortable.errors import OptionError
from ortable.exporter.language_models.speculation import PromptLookup
from ortable.exporter.language_models.steps import StepRunner, TextCache

from .test_export_language_model import VOCABULARY, build, long_rope_model

pytestmark = pytest.mark.alternates(parts=3)

NEW_TOKENS = 24
# A text with repetitions, longer than the sliding windows of 4 tokens.
PROMPT = torch.tensor([[5, 9, 43, 17, 25, 61, 5, 9, 43, 17, 80, 33, 5, 9, 43]])
MASK = torch.ones_like(PROMPT)
# Name -> architecture and options of the export: caches in one buffer, and caches that are copied.
EXPORTS: dict[str, tuple[str, dict[str, Any]]] = {
    "shared": ("llama", {}),
    "learned positions": ("gpt2", {}),
    "sliding window": ("mistral", {}),
    "two kinds of layers": ("gemma3_text", {}),
    "standard": ("llama", {"target": None}),
    "two graphs": ("gpt2", {"merged": False}),
    "codes": ("llama", {"cache": "int8"}),
}
Exporter = Callable[[str], tuple[Any, ortable.OnnxLanguageModel]]


@pytest.fixture(scope="module")
def exporter(tmp_path_factory: pytest.TempPathFactory) -> Exporter:
    @functools.cache
    def export_model(name: str) -> tuple[Any, ortable.OnnxLanguageModel]:
        architecture, options = EXPORTS[name]
        model = build(architecture)
        folder = tmp_path_factory.mktemp("models") / "lm"
        return model, ortable.export_language_model(model, folder, logits="all", **options)

    return export_model


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> list[tuple[StepRunner, int]]:
    """Return a list that gets the runner and the number of tokens of each step."""
    calls: list[tuple[StepRunner, int]] = []
    run_step = StepRunner.run_step

    def record_step(runner: StepRunner, input_ids: torch.Tensor, *args: Any, **options: Any) -> Any:
        calls.append((runner, input_ids.shape[1]))
        return run_step(runner, input_ids, *args, **options)

    monkeypatch.setattr(StepRunner, "run_step", record_step)
    return calls


class Recorder:
    """A streamer that records calls."""

    def __init__(self) -> None:
        self.calls: list[Any] = []

    def put(self, value: torch.Tensor) -> None:
        self.calls.append(value.tolist())

    def end(self) -> None:
        self.calls.append("end")


def generate(model: Any, **settings: Any) -> torch.Tensor:
    settings = {"max_new_tokens": NEW_TOKENS, **settings}
    return model.generate(PROMPT, attention_mask=MASK, do_sample=False, **settings)


@pytest.mark.alternates("name", parts=3)
@pytest.mark.parametrize("name", EXPORTS)
def test_tokens_are_those_without_guesses(name: str, exporter: Exporter, steps: list[Any]) -> None:
    model, exported = exporter(name)
    _, assistant = exporter("learned positions" if name == "shared" else "shared")
    expected = (
        exported.generate(PROMPT, max_new_tokens=NEW_TOKENS) if name == "codes" else generate(model)
    )
    assert len(steps) in (0, NEW_TOKENS)
    for settings in (
        {"prompt_lookup_num_tokens": 3},
        {"prompt_lookup_num_tokens": 10, "max_matching_ngram_size": 1},
        {"assistant_model": assistant, "assistant_confidence_threshold": 0.0},
        {"assistant_model": exported, "num_assistant_tokens": 5},
    ):
        steps.clear()
        tokens = exported.generate(PROMPT, max_new_tokens=NEW_TOKENS, **settings)
        assert torch.equal(tokens, expected)
        if settings == {"prompt_lookup_num_tokens": 3}:
            assert len(steps) < 0.7 * NEW_TOKENS


def test_an_assistant_that_is_right_makes_few_steps(exporter: Exporter, steps: list[Any]) -> None:
    model, exported = exporter("shared")
    assistant = ortable.OnnxLanguageModel.load(exported.folder)
    settings = {"num_assistant_tokens": 5, "assistant_confidence_threshold": 0}
    recorder = Recorder()
    tokens = exported.generate(
        PROMPT, max_new_tokens=NEW_TOKENS, assistant_model=assistant, streamer=recorder, **settings
    )
    assert torch.equal(tokens, generate(model))
    assert recorder.calls == [PROMPT.tolist(), *tokens[0, PROMPT.shape[1] :, None].tolist(), "end"]
    lengths = [length for runner, length in steps if runner is exported._step_runner]
    assert lengths == [PROMPT.shape[1] + 5, 6, 6, 6]
    # the prompt, then the tokens of the text that the assistant did not guess itself
    lengths = [length for runner, length in steps if runner is assistant._step_runner]
    assert lengths == [PROMPT.shape[1], 1, 1, 1, 1, *[2, 1, 1, 1, 1] * 3]


@pytest.mark.parametrize("end_index", [0, 3, 7])
def test_texts_end_at_the_first_of_several_tokens(end_index: int, exporter: Exporter) -> None:
    model, exported = exporter("shared")
    new_tokens = generate(model)[0, PROMPT.shape[1] :].tolist()
    unused = next(token for token in range(VOCABULARY) if token not in new_tokens)
    ends = [unused, new_tokens[end_index]]
    recorder, expected_calls = Recorder(), Recorder()
    tokens = exported.generate(
        PROMPT,
        max_new_tokens=NEW_TOKENS,
        eos_token_id=ends,
        assistant_model=exported,
        assistant_confidence_threshold=0.0,
        streamer=recorder,
    )
    expected = generate(model, eos_token_id=ends, streamer=expected_calls)
    assert tokens.shape[1] == PROMPT.shape[1] + new_tokens.index(ends[1]) + 1
    assert torch.equal(tokens, expected)
    prompt, *new_calls = expected_calls.calls
    assert recorder.calls == [[prompt] if isinstance(prompt[0], int) else prompt, *new_calls]


def test_padding_and_penalties(exporter: Exporter) -> None:
    model, exported = exporter("shared")
    mask = torch.ones_like(PROMPT)
    mask[0, :2] = 0
    model.generation_config.repetition_penalty = 1.3
    try:
        expected = model.generate(
            PROMPT, attention_mask=mask, do_sample=False, max_new_tokens=NEW_TOKENS
        )
    finally:
        model.generation_config.repetition_penalty = 1.0
    for settings in ({"prompt_lookup_num_tokens": 4}, {"assistant_model": exported}):
        penalised = ortable.OnnxLanguageModel.load(exported.folder)
        penalised._generation_settings["repetition_penalty"] = 1.3
        tokens = penalised.generate(PROMPT, mask, max_new_tokens=NEW_TOKENS, **settings)
        assert torch.equal(tokens, expected)


def test_a_cache_that_is_computed_anew(tmp_path: Path) -> None:
    """No step reads tokens before and after the length at which frequencies change."""
    model, prompt = long_rope_model(), PROMPT[:, :5]
    exported = ortable.export_language_model(model, tmp_path / "lm", genai=False, logits="all")
    expected = model.generate(
        prompt, attention_mask=torch.ones_like(prompt), do_sample=False, max_new_tokens=NEW_TOKENS
    )
    for settings in (
        {"prompt_lookup_num_tokens": 9, "max_matching_ngram_size": 1},
        {"assistant_model": exported, "assistant_confidence_threshold": 0.0},
    ):
        tokens = exported.generate(prompt, max_new_tokens=NEW_TOKENS, **settings)
        assert torch.equal(tokens, expected)


@pytest.mark.parametrize(
    ("text", "settings", "expected"),
    [
        ([1, 2, 3, 4, 1, 2], (2, 2), [3, 4]),
        ([1, 2, 3, 4, 1, 2], (9, 2), [3, 4, 1, 2]),
        ([1, 2, 3, 9, 2, 4, 1, 2], (1, 2), [3]),
        ([1, 2, 3, 9, 2, 4, 9, 2], (1, 1), [3]),
        ([1, 2, 3], (5, 2), []),
        ([1], (5, 2), []),
        ([7, 7], (5, 2), [7]),
    ],
)
def test_the_longest_ngram_and_its_first_occurrence_count(
    text: list[int], settings: tuple[int, int], expected: list[int]
) -> None:
    tokens = torch.tensor([text])
    assert PromptLookup(*settings).draft_tokens(tokens, torch.ones_like(tokens), 8).tolist() == [
        expected
    ]


def test_what_cannot_be_checked_is_refused(exporter: Exporter, tmp_path: Path) -> None:
    _, exported = exporter("shared")
    last = ortable.export_language_model(build("llama"), tmp_path / "last")
    wide = build("llama")
    wide.resize_token_embeddings(VOCABULARY + 3)
    other = ortable.export_language_model(wide, tmp_path / "wide")
    lookup = {"prompt_lookup_num_tokens": 2}
    for runner, prompt, settings, message in (
        (exported, PROMPT.repeat(2, 1), lookup, "for one text, not for 2"),
        (last, PROMPT, lookup, "export it with logits='all'"),
        (last, PROMPT, {"assistant_model": exported}, "export it with logits='all'"),
        (exported, PROMPT, {"assistant_model": other}, "vocabulary of 100 tokens, .* one of 97"),
        (exported, PROMPT, {"assistant_model": build("llama")}, "is an OnnxLanguageModel without"),
        (exported, PROMPT, {**lookup, "assistant_model": exported}, "not both"),
        (exported, PROMPT, {"prompt_lookup_num_tokens": 0}, "prompt_lookup_num_tokens is a number"),
        (exported, PROMPT, {"assistant_confidence_threshold": 2}, "from 0 to 1, not 2"),
        (exported, PROMPT, {"do_sample": True, **lookup}, "does not take 'do_sample'"),
    ):
        with pytest.raises(OptionError, match=message):
            runner.generate(prompt, **settings)
    # an assistant proposes one token after another, so the last logits are enough
    assert torch.equal(exported.generate(PROMPT, assistant_model=last), exported.generate(PROMPT))


def test_a_cache_that_dropped_keys_is_not_cut_back() -> None:
    runner: Any = SimpleNamespace(has_shared_cache=False, device="cpu")
    cache = TextCache(runner, 1, 9)
    cache.length, cache.values = 9, {"0.key": SimpleNamespace(shape=lambda: [1, 2, 4, 8])}
    with pytest.raises(OptionError, match=r"layer 0\.key of the cache has 4 tokens of a text of 9"):
        cache.truncate_texts(7)
