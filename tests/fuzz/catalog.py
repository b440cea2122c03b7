"""Calls for programs: the samples of the specs' entries as Python source.

Reading takes seconds, so that the catalog is cached in build/fuzz.
"""

from __future__ import annotations

import hashlib
import importlib
import math
import pickle
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import torch
import yaml

from ortablegen.aten.model import AliasEntry, OpEntry, Sample
from ortablegen.aten.read import read_folder
from ortablegen.aten.samples import parse_sample
from ortablegen.language.samples import SampleProblem, TensorSample, evaluate_value
from ortablegen.schemas.registry import import_problem, installed_torch
from ortablegen.schemas.torch import OpSchema
from ortablegen.source.diagnostics import Diagnostics

ROOT = Path(__file__).parents[2]
BUILD = ROOT / "build" / "fuzz"
# types of results that a call converts to a tensor
NUMBERS = (["bool"], ["int"], ["float"], ["SymInt"], ["SymBool"], ["Scalar"], ["number"])
TORCH_OBJECTS = ("ScalarType", "MemoryFormat", "Layout")


@dataclass(frozen=True)
class CallSite:
    """A sample as a call, with ``{0}``, ``{1}``... for the tensors that ``leaves`` describe."""

    key: str
    text: str
    leaves: tuple[TensorSample, ...]
    tolerance: float = 0.0
    random: bool = False
    unread: tuple[int, ...] = ()  # results that no step may read


@dataclass(frozen=True)
class Catalog:
    """Call sites by key, keys without a site with reasons, and modules that register operators."""

    sites: dict[str, tuple[CallSite, ...]] = field(default_factory=dict)
    absent: dict[str, str] = field(default_factory=dict)
    modules: set[str] = field(default_factory=set)

    @cached_property
    def keys(self) -> tuple[str, ...]:
        """Return the keys of the entries that a program can reach, sorted."""
        return tuple(sorted(set(self.sites) - set(unreachable())))


@cache
def unreachable() -> dict[str, str]:
    """Return the keys of the entries that no program reaches, with reasons."""
    keys_by_reason = yaml.safe_load((Path(__file__).parent / "unreachable.yaml").read_text())
    return {key: reason for reason, keys in keys_by_reason.items() for key in keys}


@cache
def catalog() -> Catalog:
    """Return the catalog of the working tree's specs, read once for each of their states."""
    folder = ROOT / "specs" / "aten"
    digest = hashlib.sha256(repr((torch.__version__, CallSite.__annotations__)).encode())
    for path in (*sorted(folder.glob("*.yaml")), Path(__file__)):
        digest.update(path.read_bytes())
    cache_file = BUILD / f"catalog-{digest.hexdigest()[:16]}.pickle"
    if cache_file.exists():
        cached = pickle.loads(cache_file.read_bytes())
        assert isinstance(cached, Catalog)
        for module in cached.modules:
            importlib.import_module(module)
        return cached
    result = _read(folder)
    BUILD.mkdir(parents=True, exist_ok=True)
    temporary = cache_file.with_suffix(f".{id(result)}")
    temporary.write_bytes(pickle.dumps(result))
    temporary.replace(cache_file)
    return result


def _read(folder: Path) -> Catalog:
    diagnostics = Diagnostics()
    specs = read_folder(folder, ROOT, diagnostics)
    diagnostics.raise_if_any()
    result = Catalog()
    for entry in specs.operator_entries():
        if not entry.versions.has(installed_torch()):
            continue
        problem = import_problem(entry.requires) if entry.requires is not None else None
        if entry.requires is not None and not problem:
            result.modules.add(entry.requires)
        sites = () if problem else tuple(_make_sites(entry))
        if sites:
            result.sites[entry.key] = (*result.sites.get(entry.key, ()), *sites)
        else:
            result.absent[entry.key] = problem or "every sample is refused"
    return result


def _make_sites(entry: OpEntry | AliasEntry) -> list[CallSite]:
    sites = []
    for sample in entry.samples:
        if sample.raises is not None:
            continue
        try:
            sites.append(_make_site(entry.schema, sample))
        except SampleProblem:
            continue
    return sites


def _make_site(schema: OpSchema, sample: Sample) -> CallSite:
    values = parse_sample(sample, schema)
    sizes = {name: size for value in values.values() for name, size in _named_sizes(value)}
    leaves: list[TensorSample] = []
    positional: list[str] = []
    named: list[str] = []
    has_gap = False
    for argument in schema.arguments:
        if argument.name not in values:
            has_gap = True
            continue
        value = evaluate_value(values[argument.name], sizes)
        text = _to_source(value, argument.type.rstrip("?").rstrip("[]"), leaves)
        if argument.kwarg_only or has_gap:
            named.append(f"{argument.torch_name}={text}")
        else:
            positional.append(text)
    name, _, overload = schema.key.partition(".")
    call = f"torch.ops.{name.replace('::', '.')}.{overload or 'default'}"
    text = f"{call}({', '.join((*positional, *named))})"
    if list(schema.returns) in NUMBERS:
        text = f"torch.ops.aten.full.default([1], {text})"
    return CallSite(
        schema.key,
        text,
        tuple(leaves),
        sample.tolerance or 0.0,
        sample.random,
        sample.unused_results,
    )


def _named_sizes(value: Any) -> list[tuple[str, int]]:
    if isinstance(value, TensorSample):
        return [(name, size) for size, name in value.dims if name]
    return (
        [pair for item in value for pair in _named_sizes(item)] if isinstance(value, list) else []
    )


def _to_source(value: Any, kind: str, leaves: list[TensorSample]) -> str:
    """Return the source of a value; tensors become indices of ``leaves``."""
    if isinstance(value, TensorSample):
        leaves.append(value)
        return f"{{{len(leaves) - 1}}}"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(_to_source(item, kind, leaves) for item in value)}]"
    if isinstance(value, float) and not math.isfinite(value):
        return f'float("{value}")'
    if isinstance(value, str) and kind in TORCH_OBJECTS:
        return f"torch.{value}"
    if isinstance(value, str) and kind == "Device":
        return f'torch.device("{value}")'
    return repr(value).replace("{", "{{").replace("}", "}}")
