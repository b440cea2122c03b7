"""Choose the next token according to generation_config.json.

Called by runner.py, loop.py and model_folder.py.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch

from ortable.errors import OptionError

# Unsupported settings that affect the next token, and the values with which they have no effect.
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
_UNSUPPORTED_FOR_SAMPLING: dict[str, tuple[Any, ...]] = {
    "epsilon_cutoff": (0, 0.0),
    "eta_cutoff": (0, 0.0),
    "min_p": (),
    "top_h": (),
    "typical_p": (1, 1.0),
}
_SUPPORTED: dict[str, Any] = {"repetition_penalty": float}
_SUPPORTED_FOR_SAMPLING = {**_SUPPORTED, "temperature": float, "top_k": int, "top_p": float}
# The largest float32 below 1 whose product with a sum of probabilities is below that sum.
_BELOW_ONE = 1 - 2**-23


@dataclass(frozen=True)
class Decoding:
    """Settings that choose tokens.

    ``ends`` are the tokens that end a text, and ``pad_token`` fills a text after its end. The other
    fields are settings of transformers' GenerationConfig, with defaults that have no effect.
    """

    ends: tuple[int, ...]
    pad_token: int
    repetition_penalty: float = 1.0
    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0


def make_decoding(settings: Mapping[str, Any], sample: bool = False) -> Decoding:
    """Parse a GenerationConfig; raise OptionError for unsupported settings."""
    unsupported = {**_UNSUPPORTED, **(_UNSUPPORTED_FOR_SAMPLING if sample else {})}
    unsupported_settings = [
        f"{name}={settings[name]!r:.60}"
        for name, neutral_values in unsupported.items()
        if settings.get(name) is not None and settings[name] not in neutral_values
    ]
    if unsupported_settings:
        raise OptionError(
            f"generation_config has {', '.join(unsupported_settings)}, which `generate` follows "
            "and the search here does not: set it to None, or choose tokens from the logits "
            "yourself"
        )
    _check_tokens({kind: settings.get(f"{kind}_token_id") for kind in ("bos", "eos", "pad")})
    tokens = special_tokens(settings)
    eos = tokens["eos"]
    supported = {
        name: _convert_number(name, settings[name], convert)
        for name, convert in (_SUPPORTED_FOR_SAMPLING if sample else _SUPPORTED).items()
        if settings.get(name) is not None
    }
    if sample:
        supported.setdefault("top_k", 50)  # as generate does
    return Decoding(
        () if eos is None else (eos,) if isinstance(eos, int) else tuple(eos),
        tokens["pad"] or 0,
        **supported,
    )


def _convert_number(name: str, value: Any, convert: Callable[[Any], Any]) -> Any:
    """Convert a setting, which may come from a file of anybody; raise OptionError."""
    try:
        return convert(value)
    except (TypeError, ValueError, OverflowError):
        raise OptionError(f"generation_config has {name}={value!r:.60}: not a number") from None


def _check_tokens(tokens: Mapping[str, Any]) -> None:
    """Raise OptionError unless each token is None, an int64, or, for the end, several of them."""
    for kind, value in tokens.items():
        is_list = (
            kind == "eos" and isinstance(value, Iterable) and not isinstance(value, str | dict)
        )
        if not all(item is None or _is_token(item) for item in (value if is_list else [value])):
            raise OptionError(f"generation_config has {kind}_token_id={value!r:.60}: not a token")


def _is_token(value: Any) -> bool:
    try:
        return abs(operator.index(value)) < 1 << 63
    except (TypeError, ValueError, RuntimeError):  # a tensor of several values raises these
        return False


def special_tokens(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the ``bos``, ``eos`` (one or several) and ``pad`` tokens, None for missing ones.

    The default of ``pad`` is the first end token, as in ``generate``.
    """
    tokens = {kind: settings.get(f"{kind}_token_id") for kind in ("bos", "eos", "pad")}
    if tokens["pad"] is None and tokens["eos"] is not None:
        eos = tokens["eos"]
        tokens["pad"] = eos if isinstance(eos, int) else next(iter(eos), None)
    return tokens


def compute_scores(
    decoding: Decoding, logits: torch.Tensor, texts: torch.Tensor, mask: torch.Tensor
) -> torch.Tensor:
    """Return scores of the next token, float32 (batch, vocabulary), by transformers' processors.

    ``logits`` are the model's output for the last token; ``texts`` (batch, length) are the tokens
    so far, and ``mask`` is 0 where they are padding.
    """
    scores = logits.to(torch.float32)
    for process in _logits_processors(decoding, mask):
        scores = process(texts, scores)
    return scores


def _logits_processors(decoding: Decoding, mask: torch.Tensor) -> list[Any]:
    """Return the processors in the order of ``generate``; penalties ignore prompt padding."""
    processors: list[Any] = []
    if replace(decoding, ends=(), pad_token=0) == Decoding((), 0):
        return processors
    from transformers import generation

    if decoding.repetition_penalty != 1.0:
        padding_length = (mask != 0).to(torch.int32).argmax(dim=1)
        penalty = generation.RepetitionPenaltyLogitsProcessor
        processors.append(penalty(decoding.repetition_penalty, prompt_ignore_length=padding_length))
    if decoding.temperature != 1.0:
        processors.append(generation.TemperatureLogitsWarper(decoding.temperature))
    if decoding.top_k:
        processors.append(generation.TopKLogitsWarper(decoding.top_k))
    if decoding.top_p < 1.0:
        processors.append(generation.TopPLogitsWarper(decoding.top_p))
    return processors


def sample_tokens(scores: torch.Tensor, random: torch.Tensor) -> torch.Tensor:
    """Return the first token of each row whose cumulative probability exceeds ``random``."""
    cumulated = scores.softmax(-1).cumsum(-1)
    threshold = random.clamp(0, _BELOW_ONE)[:, None] * cumulated[:, -1:]
    return (cumulated <= threshold).sum(-1)
