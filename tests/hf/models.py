"""Models of transformers, small and with random weights. In comes the name of a class, out come the
model in eval mode and what it is called with. Called by check.py and __main__.py."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from .inputs import parts
from .shrink import small_config

MOST_PARAMETERS = 30_000_000


class Unbuilt(Exception):
    """A model that cannot be made small, or called: the table does not know it yet."""


def class_names(mapping: str) -> dict[str, str]:
    """``model_type/Class`` -> model_type, of one of transformers' mappings of model classes."""
    from transformers.models.auto import modeling_auto

    found = {}
    for model_type, classes in getattr(modeling_auto, mapping).items():
        for name in classes if isinstance(classes, (list, tuple)) else (classes,):
            found[f"{model_type}/{name}"] = model_type
    return found


def build(case: str) -> Any:
    """The model of ``model_type/Class``. Raises Unbuilt with the reason."""
    import transformers
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    model_type, _, name = case.partition("/")
    kind = getattr(transformers, name)
    torch.manual_seed(0)
    config = _part_of(kind, small_config(CONFIG_MAPPING[model_type], model_type, name))
    with torch.device("meta"):
        size = sum(each.numel() for each in kind(config).parameters())
    if size > MOST_PARAMETERS:
        raise Unbuilt(f"{size / 1e6:.0f} million parameters: tiny.yaml leaves something large")
    model = kind(config).eval()
    _fill(model)
    return model


def _part_of(kind: type, config: Any) -> Any:
    """The part of a configuration that ``kind`` is made from: classes of text models are listed
    beside the configuration of the whole model, too."""
    wanted = getattr(kind, "config_class", None) or type(config)
    fitting = (each for each in parts(config) if isinstance(each, wanted))
    return next(fitting, config)


def _fill(model: Any) -> None:
    """Random numbers for what no initialization has written, and on top of what is all equal: a
    router of zeros likes all experts, and biases of zeros hide that one is left out."""
    with torch.no_grad():
        for tensor in _floats(model):
            bad = ~torch.isfinite(tensor) | (tensor.abs() > 1e6)
            if bad.any():
                tensor.copy_(torch.where(bad, torch.randn_like(tensor) * 0.1, tensor))
            if tensor.numel() > 1 and bool((tensor == tensor.flatten()[0]).all()):
                tensor.add_(torch.randn_like(tensor) * 0.05)


def _floats(model: Any) -> Iterator[torch.Tensor]:
    for each in model.parameters():
        if each.is_floating_point():
            yield each.data
