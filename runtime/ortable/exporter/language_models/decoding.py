"""Choose the next token by the settings of ``generate`` (generation_config.json). Called by
runner.py, loop.py and model_folder.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch

from ortable.errors import OptionError

# Settings that change which token is the next and are not followed, and the values with which they
# do nothing.
_UNSUPPORTED: dict[str, tuple[Any, ...]] = {
    "bad_words_ids": (),
    "begin_suppress_tokens": (),
    "exponential_decay_length_penalty": (),
    "forced_bos_token_id": (),
    "forced_eos_token_id": (),
    "guidance_scale": (1, 1.0),
    "min_length": (0,),
    "min_new_tokens": (0,),
    "no_repeat_ngram_size": (0,),
    "num_beams": (1,),
    "num_return_sequences": (1,),
    "penalty_alpha": (),
    "prompt_lookup_num_tokens": (),
    "sequence_bias": (),
    "stop_strings": (),
    "suppress_tokens": (),
    "watermarking_config": (),
}
_UNSUPPORTED_IN_SAMPLES: dict[str, tuple[Any, ...]] = {
    "epsilon_cutoff": (0, 0.0),
    "eta_cutoff": (0, 0.0),
    "min_p": (),
    "top_h": (),
    "typical_p": (1, 1.0),
}
_FOLLOWED: dict[str, Any] = {"repetition_penalty": float}
_FOLLOWED_IN_SAMPLES = {**_FOLLOWED, "temperature": float, "top_k": int, "top_p": float}
# Below 1 by so much that its product with a sum of probabilities is below that sum.
_BELOW_ONE = 1 - 2**-23


@dataclass(frozen=True)
class Decoding:
    """``ends``: the tokens that end a text; ``fill``: what comes after it; the rest is as in
    transformers' GenerationConfig, with the values that do nothing where it has none."""

    ends: tuple[int, ...]
    fill: int
    repetition_penalty: float = 1.0
    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0


def make_decoding(settings: Mapping[str, Any], sample: bool = False) -> Decoding:
    """Read from the settings of a GenerationConfig how to choose tokens.

    Raises OptionError for settings that are not supported.
    """
    others = {**_UNSUPPORTED, **(_UNSUPPORTED_IN_SAMPLES if sample else {})}
    refused = [
        f"{name}={settings[name]!r:.60}"
        for name, nothing in others.items()
        if settings.get(name) is not None and settings[name] not in nothing
    ]
    if refused:
        raise OptionError(
            f"generation_config has {', '.join(refused)}, which `generate` follows and the search "
            "here does not: set it to None, or choose tokens from the logits yourself"
        )
    tokens = special_tokens(settings)
    ends = tokens["eos"]
    followed = {
        name: kind(settings[name])
        for name, kind in (_FOLLOWED_IN_SAMPLES if sample else _FOLLOWED).items()
        if settings.get(name) is not None
    }
    if sample:
        followed.setdefault("top_k", 50)  # as generate does
    return Decoding(
        () if ends is None else (ends,) if isinstance(ends, int) else tuple(ends),
        tokens["pad"] or 0,
        **followed,
    )


def special_tokens(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``bos``, ``eos`` (one or several) and ``pad`` tokens, each None where there is none.

    Texts are filled with the first end token by default, as ``generate`` does.
    """
    tokens = {kind: settings.get(f"{kind}_token_id") for kind in ("bos", "eos", "pad")}
    if tokens["pad"] is None and tokens["eos"] is not None:
        eos = tokens["eos"]
        tokens["pad"] = eos if isinstance(eos, int) else next(iter(eos), None)
    return tokens


def compute_scores(
    decoding: Decoding, logits: torch.Tensor, texts: torch.Tensor, mask: torch.Tensor
) -> torch.Tensor:
    """Compute scores float32 (batch, vocabulary) of the next token with transformers' processors.

    From the logits of the last token, the texts so far (batch, length), and their mask.
    """
    scores = logits.to(torch.float32)
    for process in _logits_processors(decoding, mask):
        scores = process(texts, scores)
    return scores


def _logits_processors(decoding: Decoding, mask: torch.Tensor) -> list[Any]:
    """Return the processors in the order of ``generate``. Padding of a prompt is no repetition."""
    processors: list[Any] = []
    if replace(decoding, ends=(), fill=0) == Decoding((), 0):
        return processors
    from transformers import generation

    if decoding.repetition_penalty != 1.0:
        filling = (mask != 0).to(torch.int32).argmax(dim=1)
        penalty = generation.RepetitionPenaltyLogitsProcessor
        processors.append(penalty(decoding.repetition_penalty, prompt_ignore_length=filling))
    if decoding.temperature != 1.0:
        processors.append(generation.TemperatureLogitsWarper(decoding.temperature))
    if decoding.top_k:
        processors.append(generation.TopKLogitsWarper(decoding.top_k))
    if decoding.top_p < 1.0:
        processors.append(generation.TopPLogitsWarper(decoding.top_p))
    return processors


def sample_tokens(scores: torch.Tensor, random: torch.Tensor) -> torch.Tensor:
    """Sample a token (batch,) for each row of scores.

    It is the first whose cumulated probability is above a number (batch,) of [0, 1).
    """
    cumulated = scores.softmax(-1).cumsum(-1)
    threshold = random.clamp(0, _BELOW_ONE)[:, None] * cumulated[:, -1:]
    return (cumulated <= threshold).sum(-1)
