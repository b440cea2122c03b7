"""Models of transformers, small and with random weights."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from .inputs import parts
from .shrink import small_config

MAX_PARAMETERS = 30_000_000


class Unbuilt(Exception):
    """A model cannot be made small, or called, as the table lacks it."""


def class_names(mapping: str) -> dict[str, str]:
    """Return ``model_type/Class`` -> model_type of a mapping of model classes in transformers."""
    from transformers.models.auto import modeling_auto

    by_class = {}
    for model_type, classes in getattr(modeling_auto, mapping).items():
        for name in classes if isinstance(classes, (list, tuple)) else (classes,):
            by_class[f"{model_type}/{name}"] = model_type
    return by_class


def build(case: str) -> Any:
    """Return the model of ``model_type/Class``; raise Unbuilt with the reason."""
    import transformers
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    model_type, _, name = case.partition("/")
    kind = getattr(transformers, name)
    torch.manual_seed(0)
    config = _part_of(kind, small_config(CONFIG_MAPPING[model_type], model_type, name))
    with torch.device("meta"):
        size = sum(parameter.numel() for parameter in kind(config).parameters())
    if size > MAX_PARAMETERS:
        raise Unbuilt(f"{size / 1e6:.0f} million parameters: tiny.yaml must limit more sizes")
    model = kind(config).eval()
    _fill(model)
    return model


def _part_of(kind: type, config: Any) -> Any:
    """Return the part of a configuration from which ``kind`` is built, such as the text model's."""
    config_class = getattr(kind, "config_class", None) or type(config)
    matching = (part for part in parts(config) if isinstance(part, config_class))
    return next(matching, config)


def _fill(model: Any) -> None:
    """Fill uninitialised tensors with random numbers, and add noise to constant tensors.

    A router of zeros selects all experts, and missing biases of zeros go unnoticed.
    """
    with torch.no_grad():
        for tensor in _floats(model):
            is_invalid = ~torch.isfinite(tensor) | (tensor.abs() > 1e6)
            if is_invalid.any():
                tensor.copy_(torch.where(is_invalid, torch.randn_like(tensor) * 0.1, tensor))
            if tensor.numel() > 1 and bool((tensor == tensor.flatten()[0]).all()):
                tensor.add_(torch.randn_like(tensor) * 0.05)


def _floats(model: Any) -> Iterator[torch.Tensor]:
    for parameter in model.parameters():
        if parameter.is_floating_point():
            yield parameter.data
