"""Architectures that people export: models from configurations with random weights, inputs for
them at more than one size, and the dimensions that may vary. Nothing is downloaded.

``ARCHITECTURES`` has them by name, ``build_architecture`` makes a module.
"""

from __future__ import annotations

import torch
from torch import nn

from .architecture import Architecture
from .language import LANGUAGE_MODELS
from .networks import NETWORKS
from .pictures import PICTURE_MODELS

ARCHITECTURES: dict[str, Architecture] = {
    found.name: found for found in (*LANGUAGE_MODELS, *PICTURE_MODELS, *NETWORKS)
}


def build_architecture(name: str, small: bool = True) -> nn.Module:
    """The module of an architecture, for inference: in eval mode, without gradients. The
    same call gives the same weights; running statistics are random too, since those of a new module
    change nothing."""
    torch.manual_seed(0)
    module = ARCHITECTURES[name].make(small).eval().requires_grad_(False)
    for part in module.modules():
        if isinstance(getattr(part, "running_var", None), torch.Tensor):
            nn.init.normal_(part.running_mean, std=0.1)
            nn.init.uniform_(part.running_var, 0.5, 1.5)
    return module
