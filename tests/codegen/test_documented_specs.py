"""Entries shown in the documentation are entries that codegen accepts."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

import pytest

from ortablegen.check import check_specs
from ortablegen.diagnostics import Diagnostics
from ortablegen.read import read_text

ROOT = Path(__file__).parents[2]
PAGES = ("README.md", "specs/README.md", "docs/adding-an-operator.md", "docs/language.md")


def _entries(page: str) -> list[str]:
    text = (ROOT / page).read_text()
    blocks = re.findall(r"^ *```yaml\n(.*?)^ *```", text, re.DOTALL | re.MULTILINE)
    blocks = [textwrap.dedent(block) for block in blocks]
    return [block for block in blocks if block.startswith("- op:")]


@pytest.mark.parametrize("page", PAGES)
def test_an_entry_shown_in_the_documentation_compiles(page: str) -> None:
    entries = _entries(page)
    assert entries, f"{page} shows no entry"
    for entry in entries:
        diagnostics = Diagnostics()
        check_specs(read_text(entry, page, diagnostics), diagnostics)
        assert not diagnostics.errors, diagnostics.render()
