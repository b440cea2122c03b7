"""Models of timm and torchvision, small and with random weights, and their inputs."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
import yaml

LIBRARIES = ("timm", "torchvision")
TABLE = Path(__file__).parent / "models.yaml"
KINDS = ("classification", "segmentation", "detection", "video", "optical_flow")
CLASSES = 10


@dataclass(frozen=True)
class Entry:
    """A row of the table: model, image size, constructor arguments, dynamic batch, video frames."""

    model: str
    size: int | tuple[int, int] = 64
    settings: Mapping[str, Any] = field(default_factory=dict)
    batch: bool = True
    frames: int = 0


@functools.cache
def table() -> dict[str, Entry]:
    """Return the entries by ``timm/family`` or ``torchvision/kind/model``.

    Raises ValueError for an invalid entry.
    """
    content = yaml.safe_load(TABLE.read_text())
    by_name = {f"timm/{name}": _entry(name, settings) for name, settings in content["timm"].items()}
    for kind, entries in content["torchvision"].items():
        if kind not in KINDS:
            raise ValueError(f"{TABLE.name}: {kind} is none of {KINDS}")
        common = entries.pop("all", {})
        for name, settings in entries.items():
            merged = {"model": name, **common, **(settings or {})}
            by_name[f"torchvision/{kind}/{name}"] = _entry(name, merged)
    return by_name


def _entry(name: str, settings: Any) -> Entry:
    if not isinstance(settings, Mapping) or "model" not in settings:
        raise ValueError(f"{TABLE.name}: {name} needs a model: {settings}")
    size = settings.get("size", 64)
    return Entry(**{**settings, "size": tuple(size) if isinstance(size, list) else size})


def build(name: str) -> torch.nn.Module:
    """Return the model of an entry, in eval mode."""
    entry = table()[name]
    torch.manual_seed(0)
    model = _timm(entry) if name.startswith("timm/") else _torchvision(name, entry)
    model = model.eval()
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    _fill(model)
    return model


def _timm(entry: Entry) -> torch.nn.Module:
    import timm

    settings = _tuples({"num_classes": CLASSES, **entry.settings})
    module, _, kind = entry.model.rpartition(".")
    if module:
        factory: Callable[..., torch.nn.Module] = getattr(
            importlib.import_module(f"timm.models.{module}"), kind
        )
        return factory(**settings)
    return timm.create_model(entry.model, pretrained=False, **settings)


def _torchvision(name: str, entry: Entry) -> torch.nn.Module:
    kind = name.split("/")[1]
    module = "torchvision.models" + ("" if kind == "classification" else f".{kind}")
    settings: dict[str, Any] = {"weights": None, **entry.settings}
    if kind != "optical_flow":
        settings.setdefault("num_classes", CLASSES)
    if kind in ("segmentation", "detection"):
        settings["weights_backbone"] = None
    factory: Callable[..., torch.nn.Module] = getattr(importlib.import_module(module), entry.model)
    return factory(**_tuples(settings))


def _tuples(value: Any) -> Any:
    """Convert lists of YAML to tuples, which constructors compare with their defaults."""
    if isinstance(value, Mapping):
        return {key: _tuples(item) for key, item in value.items()}
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


def _fill(model: torch.nn.Module) -> None:
    """Add noise to constant tensors of an initialization.

    Scales of 1e-6 hide whole branches, and missing biases and means of zeros go unnoticed.
    """
    with torch.no_grad():
        for name, tensor in [*model.named_parameters(), *model.named_buffers()]:
            if not tensor.is_floating_point() or tensor.numel() < 2:
                continue
            if name.endswith("running_var"):
                tensor.add_(torch.rand_like(tensor) * 0.2)
            elif bool((tensor == tensor.flatten()[0]).all()) and not _is_constant_buffer(
                model, name
            ):
                tensor.add_(torch.randn_like(tensor) * 0.05)


def _is_constant_buffer(model: torch.nn.Module, name: str) -> bool:
    """Return whether a buffer is no statistic of a normalization: masks, coordinates, filters."""
    return name in dict(model.named_buffers()) and not name.endswith("running_mean")


def make(name: str, batch: int, seed: int = 0) -> tuple[Any, ...]:
    """Return the arguments of a call with ``batch`` images, which depend on the seed."""
    entry, kind = table()[name], name.split("/")[1]
    height, width = entry.size if isinstance(entry.size, tuple) else (entry.size, entry.size)
    generator = torch.Generator().manual_seed(seed)
    shape = (batch, 3, entry.frames, height, width) if entry.frames else (batch, 3, height, width)
    if kind == "detection":
        shape = (3, height, width)
        return ([torch.rand(shape, generator=generator) for _ in range(batch)],)
    images = torch.randn(shape, generator=generator)
    if kind == "optical_flow":
        return (images.clamp(-1, 1), torch.randn(shape, generator=generator).clamp(-1, 1))
    return (images,)
