"""Some sample call changes each default; defaults.yaml lists exactly the exceptions."""

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

GROUPS: list[dict[str, Any]] = yaml.safe_load(Path(__file__).with_name("defaults.yaml").read_text())


def constant_args(entry: OpEntry | AliasEntry) -> list[str]:
    """Return the arguments of an entry that have their default in every sample call, by name."""
    optional = [argument for argument in entry.schema.arguments if argument.has_default]
    calls = [parse_sample(sample, entry.schema) for sample in entry.samples]
    return [argument.name for argument in optional if all(_is_default(argument, v) for v in calls)]


def _is_default(argument: Argument, values: dict[str, Any]) -> bool:
    default = argument.default
    expected = list(default) if isinstance(default, tuple) else default
    return bool(values.get(argument.name, expected) == expected)


def _exceptions() -> Counter[tuple[str, str]]:
    return Counter((key, group["argument"]) for group in GROUPS for key in group["of"])


def test_what_keeps_its_default_is_listed() -> None:
    names = Counter((key, name) for key, entry in ENTRIES.items() for name in constant_args(entry))
    assert names == _exceptions()


def test_each_group_has_a_reason() -> None:
    assert all(set(group) == {"why", "argument", "of"} and group["why"] for group in GROUPS)


_ENTRY = """\
- op: aten::cumsum(Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor
  types: {T: float}
  out: {shape: same(self), dtype: "arg(dtype, else=same(self))"}
  unused: {dtype: res carries it}
  lower: return CumSum(cast(self, dtype_of(res)), as_scalar(dim))
  samples: [{self: "f32[3]", dim: 0%s}]
"""


@pytest.mark.parametrize(
    "text, names",
    [("", ["dtype"]), (", dtype: null", ["dtype"]), (", dtype: float64", [])],
)
def test_a_default_that_is_written_out_is_the_default(text: str, names: list[str]) -> None:
    specs = read_text(_ENTRY % text, "x.yaml", Diagnostics())
    assert constant_args(specs.ops[0]) == names
