"""The calls that programs are made of: the samples of the specs' entries, with the arguments as
they are written in Python. In come the entries as codegen reads them, out goes a `Catalog` of
`CallSite`, which `strategies` picks from. Reading takes seconds, so the result is kept in
build/fuzz."""

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
# what a call may return that is no tensor, and is read through one
NUMBERS = (["bool"], ["int"], ["float"], ["SymInt"], ["SymBool"], ["Scalar"], ["number"])
TORCH_OBJECTS = ("ScalarType", "MemoryFormat", "Layout")


@dataclass(frozen=True)
class CallSite:
    """One sample: ``text`` is the call with ``{0}``, ``{1}``... for its tensors, which ``leaves``
    describe. ``tolerance`` and ``random`` are those of the sample, ``unread`` its results that
    nothing may read."""

    key: str
    text: str
    leaves: tuple[TensorSample, ...]
    tolerance: float = 0.0
    random: bool = False
    unread: tuple[int, ...] = ()


@dataclass(frozen=True)
class Catalog:
    """Sites by the key of their entry; ``absent`` are keys that no program can call here, and why.
    ``modules`` are imported for the operators that they register."""

    sites: dict[str, tuple[CallSite, ...]] = field(default_factory=dict)
    absent: dict[str, str] = field(default_factory=dict)
    modules: set[str] = field(default_factory=set)

    @cached_property
    def keys(self) -> tuple[str, ...]:
        """Keys of the entries that a program can reach, sorted."""
        return tuple(sorted(set(self.sites) - set(unreachable())))


@cache
def unreachable() -> dict[str, str]:
    """The reason by key, of entries that no program reaches."""
    found = yaml.safe_load((Path(__file__).parent / "unreachable.yaml").read_text())
    return {key: reason for reason, keys in found.items() for key in keys}


@cache
def catalog() -> Catalog:
    """The catalog of the working tree's specs, read once for each of their states."""
    folder = ROOT / "specs" / "aten"
    digest = hashlib.sha256(repr((torch.__version__, CallSite.__annotations__)).encode())
    for path in (*sorted(folder.glob("*.yaml")), Path(__file__)):
        digest.update(path.read_bytes())
    kept = BUILD / f"catalog-{digest.hexdigest()[:16]}.pickle"
    if kept.exists():
        found = pickle.loads(kept.read_bytes())
        assert isinstance(found, Catalog)
        for module in found.modules:
            importlib.import_module(module)
        return found
    made = _read(folder)
    BUILD.mkdir(parents=True, exist_ok=True)
    own = kept.with_suffix(f".{id(made)}")
    own.write_bytes(pickle.dumps(made))
    own.replace(kept)
    return made


def _read(folder: Path) -> Catalog:
    diagnostics = Diagnostics()
    specs = read_folder(folder, ROOT, diagnostics)
    diagnostics.raise_if_any()
    made = Catalog()
    for entry in specs.operator_entries():
        if not entry.versions.has(installed_torch()):
            continue
        problem = import_problem(entry.requires) if entry.requires is not None else None
        if entry.requires is not None and not problem:
            made.modules.add(entry.requires)
        sites = () if problem else tuple(_sites(entry))
        if sites:
            made.sites[entry.key] = (*made.sites.get(entry.key, ()), *sites)
        else:
            made.absent[entry.key] = problem or "every sample is refused"
    return made


def _sites(entry: OpEntry | AliasEntry) -> list[CallSite]:
    found = []
    for sample in entry.samples:
        if sample.raises is not None:
            continue
        try:
            found.append(_site(entry.schema, sample))
        except SampleProblem:
            continue
    return found


def _site(schema: OpSchema, sample: Sample) -> CallSite:
    values = parse_sample(sample, schema)
    sizes = {name: size for value in values.values() for name, size in _dynamic(value)}
    leaves: list[TensorSample] = []
    positional: list[str] = []
    named: list[str] = []
    gap = False
    for argument in schema.arguments:
        if argument.name not in values:
            gap = True
            continue
        value = evaluate_value(values[argument.name], sizes)
        text = _python(value, argument.type.rstrip("?").rstrip("[]"), leaves)
        if argument.kwarg_only or gap:
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


def _dynamic(value: Any) -> list[tuple[str, int]]:
    if isinstance(value, TensorSample):
        return [(name, size) for size, name in value.dims if name]
    return [each for item in value for each in _dynamic(item)] if isinstance(value, list) else []


def _python(value: Any, kind: str, leaves: list[TensorSample]) -> str:
    """The value as it is written in a program; tensors become places of ``leaves``."""
    if isinstance(value, TensorSample):
        leaves.append(value)
        return f"{{{len(leaves) - 1}}}"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(_python(each, kind, leaves) for each in value)}]"
    if isinstance(value, float) and not math.isfinite(value):
        return f'float("{value}")'
    if isinstance(value, str) and kind in TORCH_OBJECTS:
        return f"torch.{value}"
    if isinstance(value, str) and kind == "Device":
        return f'torch.device("{value}")'
    return repr(value).replace("{", "{{").replace("}", "}}")
