"""Select the operators to measure, and a sample call of each dtype."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from ortable_generated.aten.dispatch import PLACE
from ortablegen.aten.model import Sample
from ortablegen.aten.read import read_folder
from ortablegen.aten.samples import parse_sample
from ortablegen.schemas.registry import import_problem, installed_torch
from ortablegen.source.diagnostics import Diagnostics

from .scaling import Entry, tensor_samples

_ROOT = Path(__file__).parents[2]


def read_entries() -> list[Entry]:
    """Read the entries of the installed torch that ONNX Runtime may run, sorted by operator."""
    diagnostics = Diagnostics()
    specs = read_folder(_ROOT / "specs" / "aten", _ROOT, diagnostics)
    diagnostics.raise_if_any()
    entries = [
        entry
        for entry in (*specs.ops, *specs.aliases)
        if entry.key not in PLACE
        and entry.versions.has(installed_torch())
        and (entry.requires is None or import_problem(entry.requires) is None)
    ]
    return sorted(entries, key=lambda entry: entry.key)


def choose_samples(entry: Entry) -> Iterator[tuple[str, int]]:
    """Yield the dtypes of an operator's first tensor, each with the number of a sample call."""
    numbers: dict[str, int] = {}
    for number, sample in enumerate(entry.samples):
        if not _is_measurable(sample):
            continue
        leaves = tensor_samples(parse_sample(sample, entry.schema))
        if leaves and max(leaf.element_count for leaf in leaves) > 1:
            numbers.setdefault(leaves[0].dtype, number)
    yield from numbers.items()


def _is_measurable(sample: Sample) -> bool:
    return sample.raises is None and not sample.random and sample.target in (None, "onnxruntime")
