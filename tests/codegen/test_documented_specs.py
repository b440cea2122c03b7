"""Entries shown in the documentation are entries that codegen accepts."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

import pytest
import torch

from ortablegen.aten.check import check_specs
from ortablegen.aten.read import read_text
from ortablegen.rewrites.check import check_rewrites
from ortablegen.rewrites.read import read_rewrites_text
from ortablegen.source.diagnostics import Diagnostics

ROOT = Path(__file__).parents[2]
LIBRARY = torch.library.Library("my_ops", "DEF")  # what an entry of the pages names
LIBRARY.define("step_(Tensor(a!) weight, Tensor grad, float rate) -> ()")
PAGES = ("README.md", "specs/README.md", "docs/adding-an-operator.md", "docs/language.md")


def _entries(page: str, kind: str = "op") -> list[str]:
    text = (ROOT / page).read_text()
    blocks = re.findall(r"^ *```yaml\n(.*?)^ *```", text, re.DOTALL | re.MULTILINE)
    blocks = [textwrap.dedent(block) for block in blocks]
    return [block for block in blocks if block.startswith(f"- {kind}:")]


@pytest.mark.parametrize("page", PAGES)
def test_an_entry_shown_in_the_documentation_compiles(page: str) -> None:
    entries = _entries(page)
    assert entries, f"{page} shows no entry"
    for entry in entries:
        diagnostics = Diagnostics()
        check_specs(read_text(entry, page, diagnostics), diagnostics)
        assert not diagnostics.errors, diagnostics.render()


def test_a_rewrite_shown_in_the_documentation_compiles() -> None:
    entries = _entries("docs/language.md", "rewrite")
    assert entries
    for entry in entries:
        diagnostics = Diagnostics()
        check_rewrites(read_rewrites_text(entry, "docs/language.md", diagnostics), diagnostics)
        assert not diagnostics.errors, diagnostics.render()
