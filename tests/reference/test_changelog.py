"""docs/changelog.md follows keepachangelog.com, and its versions and names exist."""

from __future__ import annotations

import dataclasses
import re

import ortable
from tests.packaging.files import ROOT

TEXT = (ROOT / "docs" / "changelog.md").read_text(encoding="utf-8")
KINDS = ["Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"]


def test_it_has_the_version_that_is_here() -> None:
    versions = re.findall(r"^## (\d+\.\d+\.\d+) - (.+)$", TEXT, re.MULTILINE)
    assert versions[0][0] == ortable.__version__, "the newest version comes first"
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\d|not released yet", day) for _, day in versions)
    assert [day for _, day in versions[1:] if day == "not released yet"] == []


def test_the_kinds_of_changes_stand_in_one_order() -> None:
    for section in re.split(r"^## ", TEXT, flags=re.MULTILINE)[1:]:
        kinds = re.findall(r"^### (.+)$", section, re.MULTILINE)
        assert kinds and kinds == [kind for kind in KINDS if kind in kinds]


def test_it_names_what_exists() -> None:
    for name in re.findall(r"`ortable\.(\w+)", TEXT):
        assert name in ortable.__all__ or name == "exporter", name
    fields = {field.name for field in dataclasses.fields(ortable.ExportOptions)}
    options = re.findall(r"ExportOptions\((\w+)=", TEXT)
    assert options and set(options) <= fields
