"""docs/api.md agrees with the sources and contains every public name."""

from __future__ import annotations

import re

import ortable
from tests.packaging.files import ROOT
from tests.packaging.test_docstrings import CALLABLES

from . import api

TEXT = api.PAGE.read_text(encoding="utf-8")


def test_the_page_is_that_of_the_sources() -> None:
    assert api.page() == TEXT, "generate the pages: python -m tests.reference"


def test_every_public_name_has_a_section_of_its_own() -> None:
    assert sorted(re.findall(r"^### ortable\.(\w+)$", TEXT, re.MULTILINE)) == ortable.__all__


def test_every_public_member_is_there() -> None:
    """Methods have a heading or a row in the section of their class, and properties have a row."""
    sections = dict(
        re.findall(r"^### ortable\.(\w+)\n(.*?)(?=^### |\Z)", TEXT, re.MULTILINE | re.DOTALL)
    )
    for name in CALLABLES:
        owner, _, member = name.partition(".")
        if member:
            marks = (f"#### {name}\n", f"- `{member}: ", f"- `{member}(", f" `{member}`")
            assert any(mark in sections[owner] for mark in marks), name


def test_nothing_of_the_sources_shines_through() -> None:
    """The page contains no file of ortable, no memory address and no reStructuredText markup."""
    file_names = {path.name for path in (ROOT / "runtime" / "ortable").rglob("*.py")}
    assert not file_names & set(re.findall(r"\b\w+\.py\b", TEXT))
    marks = re.findall(r"<[\w.]+ (?:object )?at |:(?:func|class|meth):|``", TEXT.replace("```", ""))
    assert not marks
