"""Modules made of functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch


class Pipeline(torch.nn.Module):
    """A layer with parameters, and a function of its results and of the other arguments."""

    def __init__(self, layer: torch.nn.Module, function: Callable[..., Any]) -> None:
        super().__init__()
        self.layer, self.function = layer, function

    def forward(self, first: torch.Tensor, second: Any = None, third: Any = None) -> Any:
        others = [value for value in (second, third) if value is not None]
        return self.function(self.layer(first), *others)


def wrap_function(forward: Callable[..., Any], **modules: torch.nn.Module) -> torch.nn.Module:
    """Return a module with modules by name, and a function of the module as its ``forward``."""
    wrapper = type(forward.__name__.strip("<>"), (torch.nn.Module,), {"forward": forward})()
    for name, module in modules.items():
        wrapper.add_module(name, module)
    return wrapper
