"""Each section of docs/libraries.md has packages, a check and the versions that the page names."""

from __future__ import annotations

import pytest

from . import checks
from .__main__ import PACKAGES, ROOT, select_names
from .sections import PAGE, read_sections

SECTIONS = read_sections()
PINS = [pin for pins in PACKAGES.values() for pin in pins]
PINS += (ROOT / "constraints.txt").read_text().split()


def test_every_section_has_packages_and_code() -> None:
    assert list(SECTIONS) == list(PACKAGES)
    for name, blocks in SECTIONS.items():
        assert blocks and hasattr(checks, f"check_{name.replace('-', '_')}")


@pytest.mark.parametrize("name", PACKAGES)
def test_the_page_names_the_version_that_is_tested(name: str) -> None:
    package = {"optimum": "optimum-onnx"}.get(name, name)
    pins = [f"{package}=={version}" for version in _find_versions(name)]
    assert pins and set(pins) <= set(PINS)


def _find_versions(name: str) -> list[str]:
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    rows = [line.split("|")[1].split() for line in lines if line.startswith("| [")]
    return [version for link, version in rows if link.endswith(f"(#{name})")]


def test_bounded_runs_reach_every_section() -> None:
    names = list(PACKAGES)
    selected = [select_names(names, number) for number in range(len(names))]
    assert {name for pair in selected for name in pair} == set(names)
    assert all(len(set(pair)) == 2 for pair in selected)
