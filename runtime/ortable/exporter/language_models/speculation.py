"""Guess the next tokens of a text, which a language model then checks in one step.

Called by runner.py; greedy_search.py checks the guesses.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Protocol

import torch

from ortable.errors import OptionError

from .decoding import Decoding, compute_scores
from .steps import TextCache


class Drafter(Protocol):
    """Guesses tokens; a wrong guess costs time and changes no result."""

    def draft_tokens(self, text: torch.Tensor, mask: torch.Tensor, limit: int) -> torch.Tensor:
        """Return the tokens that may follow a text, int64 (1, count) with at most ``limit``.

        Args:
            text: int64 (1, length).
            mask: int64 (1, length), 0 for padding.
            limit: the maximal count.
        """


@dataclass(frozen=True)
class SpeculationOptions:
    """Settings of speculative decoding, named as in transformers' GenerationConfig."""

    prompt_lookup_num_tokens: int | None = None
    max_matching_ngram_size: int = 2
    num_assistant_tokens: int = 20
    assistant_confidence_threshold: float = 0.4

    def __post_init__(self) -> None:
        for name in ("max_matching_ngram_size", "num_assistant_tokens", "prompt_lookup_num_tokens"):
            value = getattr(self, name)
            if value is not None and (type(value) is not int or value < 1):
                raise OptionError(f"{name} is a number of tokens, not {value!r:.80}")
        threshold = self.assistant_confidence_threshold
        if type(threshold) not in (int, float) or not 0 <= threshold <= 1:
            raise OptionError(
                f"assistant_confidence_threshold is a number from 0 to 1, not {threshold!r:.80}"
            )


SETTINGS = tuple(option.name for option in fields(SpeculationOptions))


def parse_speculation(settings: Mapping[str, Any]) -> SpeculationOptions:
    """Parse the settings of a GenerationConfig; raise OptionError for invalid values."""
    return SpeculationOptions(
        **{name: settings[name] for name in SETTINGS if settings.get(name) is not None}
    )


@dataclass(frozen=True)
class PromptLookup:
    """Guesses that a text goes on as it did after an earlier occurrence of its last tokens.

    The longest n-gram of at most ``ngram_size`` tokens that occurs before counts, and of its
    occurrences the first, as in transformers.
    """

    count: int
    ngram_size: int

    def draft_tokens(self, text: torch.Tensor, mask: torch.Tensor, limit: int) -> torch.Tensor:
        """Return tokens of the text, or none if its last token is new."""
        length = text.shape[1]
        for size in range(min(self.ngram_size, length - 1), 0, -1):
            ngrams = text[0, :-1].unfold(0, size, 1)  # without the last one itself
            matches = (ngrams == text[0, -size:]).all(dim=1).nonzero()
            if len(matches):
                start = int(matches[0]) + size
                return text[:, start : start + min(self.count, limit)]
        return text[:, :0]


class Assistant:
    """Guesses the most likely tokens of a smaller model, until that is not confident."""

    def __init__(
        self, cache: TextCache, decoding: Decoding, options: SpeculationOptions, max_length: int
    ) -> None:
        self.cache, self.decoding, self.options = cache, decoding, options
        self.max_length = max_length

    def draft_tokens(self, text: torch.Tensor, mask: torch.Tensor, limit: int) -> torch.Tensor:
        """Return the tokens, the last of which may be less likely than the threshold."""
        length = text.shape[1]
        count = min(limit, self.options.num_assistant_tokens, self.max_length - length)
        for _ in range(count):
            self.cache.truncate_texts(text.shape[1] - 1)
            logits = self.cache.append_tokens(text, mask)
            scores = compute_scores(self.decoding, logits[:, -1], text, mask)
            probability, token = scores.softmax(-1).max(-1, keepdim=True)
            text = torch.cat([text, token], dim=1)
            mask = torch.cat([mask, torch.ones_like(token)], dim=1)
            if int(token) in self.decoding.ends:
                break
            if float(probability) < self.options.assistant_confidence_threshold:
                break
        return text[:, length:]
