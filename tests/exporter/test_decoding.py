"""GenerationConfig settings: neutral values are accepted, unsupported ones are refused by name."""

from __future__ import annotations

from typing import Any

import pytest
from transformers import GenerationConfig

from ortable.errors import OptionError
from ortable.exporter.language_models.decoder import cache_recompute_length
from ortable.exporter.language_models.decoding import make_decoding

SETTINGS: list[tuple[str, list[Any], Any]] = [
    ("bad_words_ids", [], [[1]]),
    ("begin_suppress_tokens", [], [1]),
    ("exponential_decay_length_penalty", [], (1, 1.5)),
    ("forced_bos_token_id", [], 0),
    ("forced_eos_token_id", [], 0),
    ("guidance_scale", [1, 1.0], 2.0),
    ("min_length", [0], 1),
    ("min_new_tokens", [0], 1),
    ("no_repeat_ngram_size", [0], 1),
    ("num_beams", [1], 2),
    ("num_return_sequences", [1], 2),
    ("penalty_alpha", [], 0.5),
    ("prompt_lookup_num_tokens", [], 1),
    ("sequence_bias", [], [[[1], 2.0]]),
    ("stop_strings", [], ["end"]),
    ("suppress_tokens", [], [1]),
]
SAMPLING_SETTINGS: list[tuple[str, list[Any], Any]] = [
    ("epsilon_cutoff", [0, 0.0], 0.1),
    ("eta_cutoff", [0, 0.0], 0.1),
    ("min_p", [], 0.1),
    ("top_h", [], 0.1),
    ("typical_p", [1, 1.0], 0.5),
]


@pytest.mark.parametrize(("name", "neutral", "unsupported"), [*SETTINGS, *SAMPLING_SETTINGS])
def test_a_setting_that_does_something_is_refused(
    name: str, neutral: list[Any], unsupported: Any
) -> None:
    expected = make_decoding({}, sample=True)
    for value in (None, *neutral):
        assert make_decoding({name: value}, sample=True) == expected
    with pytest.raises(OptionError, match=f"generation_config has {name}="):
        make_decoding({name: unsupported}, sample=True)


@pytest.mark.parametrize(("name", "neutral", "unsupported"), SAMPLING_SETTINGS)
def test_what_only_drawing_follows_is_nothing_to_a_greedy_search(
    name: str, neutral: list[Any], unsupported: Any
) -> None:
    """A greedy search ignores the settings that only sampling uses."""
    assert make_decoding({name: unsupported}) == make_decoding({})


@pytest.mark.parametrize(
    ("config", "length"),
    [
        ({"model_type": "phi3", "rope_parameters": {"rope_type": "longrope"}}, 4096),
        ({"model_type": "phi3", "rope_parameters": {"rope_type": "default"}}, None),
        ({"model_type": "phi3"}, None),
        ({"model_type": "llama", "rope_parameters": {"rope_type": "longrope"}}, None),
    ],
)
def test_after_which_length_the_cache_is_computed_anew(
    config: dict[str, Any], length: int | None
) -> None:
    """Only Phi-3 with longrope recomputes its cache, after the original context length."""
    assert cache_recompute_length({**config, "original_max_position_embeddings": 4096}) == length
    assert cache_recompute_length(config) is None


def test_the_defaults_of_transformers_do_nothing() -> None:
    assert make_decoding(GenerationConfig().to_dict(), sample=True).ends == ()
