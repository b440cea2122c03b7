"""Architectures for export by name: models with random weights, inputs, dynamic dimensions."""

from __future__ import annotations

import torch
from torch import nn

from .architecture import Architecture
from .language import LANGUAGE_MODELS
from .networks import NETWORKS
from .pictures import PICTURE_MODELS

ARCHITECTURES: dict[str, Architecture] = {
    entry.name: entry for entry in (*LANGUAGE_MODELS, *PICTURE_MODELS, *NETWORKS)
}


def build_architecture(name: str, small: bool = True) -> nn.Module:
    """Build the module of an architecture in eval mode, with reproducible random weights.

    Running statistics are random, too, because the initial ones have no effect.
    """
    torch.manual_seed(0)
    module = ARCHITECTURES[name].make(small).eval().requires_grad_(False)
    for submodule in module.modules():
        if isinstance(getattr(submodule, "running_var", None), torch.Tensor):
            nn.init.normal_(submodule.running_mean, std=0.1)
            nn.init.uniform_(submodule.running_var, 0.5, 1.5)
    return module
