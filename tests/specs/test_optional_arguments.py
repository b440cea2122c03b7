"""An argument with a default has another value in some sample call of its entry; those that keep it
stand in defaults.yaml with the reason. The list is exact, so that it only shrinks."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml

from ortablegen.aten.model import AliasEntry, OpEntry
from ortablegen.aten.read import read_text
from ortablegen.aten.samples import parse_sample
from ortablegen.schemas.torch import Argument
from ortablegen.source.diagnostics import Diagnostics

from .test_cases import ENTRIES

LISTED: list[dict[str, Any]] = yaml.safe_load(Path(__file__).with_name("defaults.yaml").read_text())


def kept(entry: OpEntry | AliasEntry) -> list[str]:
    """The arguments of an entry that have their default in every sample call, by name."""
    optional = [argument for argument in entry.schema.arguments if argument.has_default]
    given = [parse_sample(sample, entry.schema) for sample in entry.samples]
    return [argument.name for argument in optional if all(_is_default(argument, v) for v in given)]


def _is_default(argument: Argument, values: dict[str, Any]) -> bool:
    default = argument.default
    wanted = list(default) if isinstance(default, tuple) else default
    return bool(values.get(argument.name, wanted) == wanted)


def _listed() -> Counter[tuple[str, str]]:
    return Counter((key, group["argument"]) for group in LISTED for key in group["of"])


def test_what_keeps_its_default_is_listed() -> None:
    found = Counter((key, name) for key, entry in ENTRIES.items() for name in kept(entry))
    assert found == _listed()


def test_each_group_has_a_reason() -> None:
    assert all(set(group) == {"why", "argument", "of"} and group["why"] for group in LISTED)


_ENTRY = """\
- op: aten::cumsum(Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor
  types: {T: float}
  out: {shape: same(self), dtype: "arg(dtype, else=same(self))"}
  unused: {dtype: res carries it}
  lower: return CumSum(cast(self, dtype_of(res)), as_scalar(dim))
  samples: [{self: "f32[3]", dim: 0%s}]
"""


@pytest.mark.parametrize(
    "given, found",
    [("", ["dtype"]), (", dtype: null", ["dtype"]), (", dtype: float64", [])],
)
def test_a_default_that_is_written_out_is_the_default(given: str, found: list[str]) -> None:
    specs = read_text(_ENTRY % given, "x.yaml", Diagnostics())
    assert kept(specs.ops[0]) == found
