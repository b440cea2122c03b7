"""Search for the most likely tokens, also several in one step where they were guessed before.

Called by runner.py. The steps of steps.py compute logits, and the drafters of speculation.py guess.
"""

from __future__ import annotations

from typing import Any

import torch

from .decoding import Decoding, compute_scores
from .speculation import Drafter
from .steps import TextCache


def search_greedily(
    cache: TextCache,
    texts: torch.Tensor,
    mask: torch.Tensor,
    decoding: Decoding,
    count: int,
    drafter: Drafter | None = None,
    streamer: Any = None,
) -> torch.Tensor:
    """Return the texts with at most ``count`` more tokens, int64 (batch, length).

    A step reads the tokens that are not in the cache and the guesses of the drafter, which stay as
    long as they are the most likely tokens. So the result does not depend on the drafter.

    Args:
        cache: an empty cache of the texts.
        texts: int64 (batch, sequence).
        mask: int64 (batch, sequence), 0 for padding.
        decoding: settings that choose tokens.
        count: the maximal number of tokens to add.
        drafter: guesses tokens of a single text.
        streamer: gets the prompts, then the token of each text (batch,), as in transformers.
    """
    finished = torch.zeros(len(texts), dtype=torch.bool)
    end_tokens = torch.tensor(decoding.ends, dtype=torch.int64)
    end = texts.shape[1] + count
    if streamer is not None:
        streamer.put(texts)
    while texts.shape[1] < end and not finished.all():
        guesses = _draft_tokens(drafter, cache, texts, mask, end - texts.shape[1] - 1)
        logits = _read_guesses(cache, texts, mask, guesses)
        for index in range(guesses.shape[1] + 1):
            scores = compute_scores(decoding, logits[:, index], texts, mask)
            token = torch.where(finished, decoding.pad_token, scores.argmax(-1))
            finished |= torch.isin(token, end_tokens)
            texts = torch.cat([texts, token[:, None]], dim=1)
            mask = torch.cat([mask, torch.ones_like(token[:, None])], dim=1)
            if streamer is not None:
                streamer.put(token)
            if finished.all() or not torch.equal(guesses[:, index : index + 1], token[:, None]):
                break
        cache.truncate_texts(texts.shape[1] - 1)
    if streamer is not None:
        streamer.end()
    return texts


def _draft_tokens(
    drafter: Drafter | None, cache: TextCache, texts: torch.Tensor, mask: torch.Tensor, limit: int
) -> torch.Tensor:
    """Return guesses that plain steps would read with the same frequencies of positions."""
    length = texts.shape[1]
    if cache.recompute_length is not None and length <= cache.recompute_length:
        limit = min(limit, cache.recompute_length - length)
    if drafter is None or limit < 1:
        return texts[:, :0]
    return drafter.draft_tokens(texts, mask, limit)


def _read_guesses(
    cache: TextCache, texts: torch.Tensor, mask: torch.Tensor, guesses: torch.Tensor
) -> torch.Tensor:
    """Return the logits after the texts and after each guess, (batch, 1 + guesses, vocabulary)."""
    ones = torch.ones_like(guesses)
    logits = cache.append_tokens(torch.cat([texts, guesses], dim=1), torch.cat([mask, ones], dim=1))
    return logits[:, -guesses.shape[1] - 1 :]
