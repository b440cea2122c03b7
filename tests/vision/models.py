"""Models of timm and torchvision, small and with random weights. In comes the name of a family of
models.yaml, out come the model in eval mode and what it is called with. Called by check.py."""

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
    """A model of the table: its name in the library, the sides of its pictures, arguments of its
    constructor, whether its batch may be dynamic, and frames of its videos."""

    model: str
    size: int | tuple[int, int] = 64
    settings: Mapping[str, Any] = field(default_factory=dict)
    batch: bool = True
    frames: int = 0


@functools.cache
def table() -> dict[str, Entry]:
    """``library/family``, and for torchvision ``torchvision/kind/model``, with their entries.

    Raises ValueError for an entry that is none.
    """
    content = yaml.safe_load(TABLE.read_text())
    found = {f"timm/{name}": _entry(name, given) for name, given in content["timm"].items()}
    for kind, entries in content["torchvision"].items():
        if kind not in KINDS:
            raise ValueError(f"{TABLE.name}: {kind} is none of {KINDS}")
        common = entries.pop("all", {})
        for name, given in entries.items():
            merged = {"model": name, **common, **(given or {})}
            found[f"torchvision/{kind}/{name}"] = _entry(name, merged)
    return found


def _entry(name: str, given: Any) -> Entry:
    if not isinstance(given, Mapping) or "model" not in given:
        raise ValueError(f"{TABLE.name}: {name} needs a model: {given}")
    size = given.get("size", 64)
    return Entry(**{**given, "size": tuple(size) if isinstance(size, list) else size})


def build(name: str) -> torch.nn.Module:
    """The model of an entry, in eval mode."""
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
        made: Callable[..., torch.nn.Module] = getattr(
            importlib.import_module(f"timm.models.{module}"), kind
        )
        return made(**settings)
    return timm.create_model(entry.model, pretrained=False, **settings)


def _torchvision(name: str, entry: Entry) -> torch.nn.Module:
    kind = name.split("/")[1]
    module = "torchvision.models" + ("" if kind == "classification" else f".{kind}")
    settings: dict[str, Any] = {"weights": None, **entry.settings}
    if kind != "optical_flow":
        settings.setdefault("num_classes", CLASSES)
    if kind in ("segmentation", "detection"):
        settings["weights_backbone"] = None
    build_it: Callable[..., torch.nn.Module] = getattr(importlib.import_module(module), entry.model)
    return build_it(**_tuples(settings))


def _tuples(value: Any) -> Any:
    """Lists of YAML as tuples, which constructors compare with their defaults."""
    if isinstance(value, Mapping):
        return {key: _tuples(each) for key, each in value.items()}
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


def _fill(model: torch.nn.Module) -> None:
    """Noise on what an initialization leaves all equal: scales of 1e-6 hide whole branches, and
    biases and means of zeros hide that one is left out."""
    with torch.no_grad():
        for name, tensor in [*model.named_parameters(), *model.named_buffers()]:
            if not tensor.is_floating_point() or tensor.numel() < 2:
                continue
            if name.endswith("running_var"):
                tensor.add_(torch.rand_like(tensor) * 0.2)
            elif bool((tensor == tensor.flatten()[0]).all()) and not _is_table(model, name):
                tensor.add_(torch.randn_like(tensor) * 0.05)


def _is_table(model: torch.nn.Module, name: str) -> bool:
    """A buffer that is no statistic of a normalization: masks, coordinates, filters."""
    return name in dict(model.named_buffers()) and not name.endswith("running_mean")


def make(name: str, batch: int, seed: int = 0) -> tuple[Any, ...]:
    """The arguments of a call with so many pictures; with another seed they are others."""
    entry, kind = table()[name], name.split("/")[1]
    height, width = entry.size if isinstance(entry.size, tuple) else (entry.size, entry.size)
    generator = torch.Generator().manual_seed(seed)
    shape = (batch, 3, entry.frames, height, width) if entry.frames else (batch, 3, height, width)
    if kind == "detection":
        shape = (3, height, width)
        return ([torch.rand(shape, generator=generator) for _ in range(batch)],)
    pictures = torch.randn(shape, generator=generator)
    if kind == "optical_flow":
        return (pictures.clamp(-1, 1), torch.randn(shape, generator=generator).clamp(-1, 1))
    return (pictures,)
