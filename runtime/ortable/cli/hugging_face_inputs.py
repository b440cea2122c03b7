"""What a model of transformers is called with, by its configuration. In comes a model, out go
keyword arguments of forward and the dimensions that may be free; called by `hugging_face`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from ortable.errors import InputError

BATCH, TOKENS, DECODER, SAMPLES = 2, 8, 5, 16000
_FIRST_ID = 20  # tokens below mean something, in most vocabularies

Made = tuple[Any, dict[int, str]]


def example_call(
    model: Any, tokenizer_names: Sequence[str] = ()
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Keyword arguments of a call, the same each time, and names of their free dimensions.

    Args:
        model: a PreTrainedModel.
        tokenizer_names: what its tokenizer returns, where there is one.

    Raises InputError where forward needs what nothing is known of.
    """
    import torch

    generator = torch.Generator().manual_seed(0)
    kwargs: dict[str, Any] = {}
    free: dict[str, Any] = {}
    for name in _wanted(model, tokenizer_names):
        make = _KNOWN.get(name)
        made = make(model.config, generator) if make is not None else None
        if made is None:
            raise InputError(
                f"{type(model).__name__} is called with {name!r}, which its configuration does not "
                f'describe: give all inputs, --inputs "{name}=f32[2,8]" ...'
            )
        kwargs[name], free[name] = made
    if "use_cache" in inspect.signature(model.forward).parameters:  # one call, not a step of many
        kwargs["use_cache"], free["use_cache"] = False, None
    return kwargs, free


def _wanted(model: Any, tokenizer_names: Sequence[str]) -> Iterator[str]:
    parameters = inspect.signature(model.forward).parameters
    main = model.main_input_name
    names = [main] if isinstance(main, str) else list(main)
    names += [name for name, each in parameters.items() if each.default is each.empty]
    if "input_ids" in names:
        names += tokenizer_names or ["attention_mask"]
        if not tokenizer_names and getattr(model.config, "type_vocab_size", 0) > 1:
            names += ["token_type_ids"]
    if "input_ids" in parameters and "pixel_values" in parameters:  # texts and pictures: CLIP
        names += ["input_ids", "pixel_values", "attention_mask"]
    if getattr(model.config, "is_encoder_decoder", False):
        names += ["decoder_input_ids"]
    variadic = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    for name in dict.fromkeys(names):
        if name in parameters and parameters[name].kind not in variadic:
            yield name


# -- each input, by its name


def _ids(length: int, dimension: str, decoder: bool = False) -> Callable[..., Made]:
    def made(config: Any, generator: Any) -> Made:
        import torch

        most = int(config.get_text_config(decoder=decoder).vocab_size)
        low = min(_FIRST_ID, most // 2)
        shape = (BATCH, length)
        return torch.randint(low, most, shape, generator=generator), {0: "batch", 1: dimension}

    return made


def _filled(value: int) -> Callable[..., Made]:
    def made(config: Any, generator: Any) -> Made:
        import torch

        return torch.full((BATCH, TOKENS), value), {0: "batch", 1: "sequence"}

    return made


def _boxes(config: Any, generator: Any) -> Made:
    import torch

    corner = torch.randint(0, 100, (BATCH, TOKENS, 2), generator=generator)
    return torch.cat([corner, corner + 100], 2), {0: "batch", 1: "sequence"}


def _pixels(config: Any, generator: Any) -> Made | None:
    import torch

    size = _field(config, "image_size")
    if isinstance(size, Mapping):
        size = [size.get("height"), size.get("width")]
    height, width = size if isinstance(size, (list, tuple)) else (size, size)
    if not isinstance(height, int) or not isinstance(width, int):
        height = width = 224  # a convolutional network: any size will do
    channels = _field(config, "num_channels") or 3
    return torch.randn(BATCH, channels, height, width, generator=generator), {0: "batch"}


def _waves(config: Any, generator: Any) -> Made:
    import torch

    bins, frames = _field(config, "num_mel_bins"), _field(config, "max_length")
    if isinstance(bins, int) and isinstance(frames, int):  # a spectrogram, as AST takes it
        return torch.randn(BATCH, frames, bins, generator=generator), {0: "batch"}
    wave = torch.randn(BATCH, SAMPLES, generator=generator)
    return wave, {0: "batch", 1: "samples"}


def _spectra(config: Any, generator: Any) -> Made | None:
    import torch

    bins, places = _field(config, "num_mel_bins"), _field(config, "max_source_positions")
    if not isinstance(bins, int) or not isinstance(places, int):
        return None
    return torch.randn(BATCH, bins, 2 * places, generator=generator), {0: "batch"}


def _field(config: Any, name: str) -> Any:
    """A field of a configuration, or of its part for pictures or sounds."""
    parts = [getattr(config, f"{part}_config", None) for part in ("vision", "audio", "backbone")]
    found = (getattr(each, name, None) for each in (config, *parts) if each is not None)
    return next((each for each in found if each is not None), None)


_KNOWN: Mapping[str, Callable[..., Made | None]] = {
    "input_ids": _ids(TOKENS, "sequence"),
    "decoder_input_ids": _ids(DECODER, "decoder_sequence", decoder=True),
    "attention_mask": _filled(1),
    "token_type_ids": _filled(0),
    "bbox": _boxes,
    "pixel_values": _pixels,
    "input_values": _waves,
    "input_features": _spectra,
}
