"""Every line of the threat model in docs/security.md has a test, and releases have checksums."""

from __future__ import annotations

import ast
import re
import tomllib

import pytest

from tests.rotation import ROOT

PAGE = (ROOT / "docs/security.md").read_text(encoding="utf-8")
LINES = [
    line
    for line in re.findall(r"^\| (.*) \|$", PAGE.partition("## Threat model")[2], re.MULTILINE)
    if "::" in line
]
FOLDERS = ("security", "examples")


def _find_tests(module: str) -> set[str]:
    """Return the functions of a test module."""
    paths = [ROOT / "tests" / folder / f"{module}.py" for folder in FOLDERS]
    (path,) = [path for path in paths if path.exists()]
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


def test_the_page_has_lines_of_every_kind() -> None:
    table = PAGE.partition("| attack |")[2].partition("\n\n")[0].splitlines()[2:]
    assert len(table) == len(LINES) > 25
    heads = ("Models", "Saved programs", "Language models", "Specs", "Cache folders", "Servers")
    assert all(any(line.startswith(f"**{head}**") for line in LINES) for head in heads)


@pytest.mark.parametrize("line", LINES, ids=range(len(LINES)))
def test_every_line_has_a_test(line: str) -> None:
    attack, answer, tests = line.split(" | ")
    names = re.findall(r"`(test_\w+)::(test_\w+)`", tests)
    assert attack and answer and names
    for module, name in names:
        assert name in _find_tests(module)


def test_releases_have_checksums_and_an_sbom() -> None:
    """The checklist has both, the SBOM first; the page lists what it has."""
    steps = (ROOT / "docs/releasing.md").read_text(encoding="utf-8")
    commands = ("python -m build", "python -m tests.support.sbom", "sha256sum *", "pip-audit")
    positions = [steps.index(command) for command in commands]
    assert positions == sorted(positions)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert 'dynamic = ["version"]' in (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    dependencies = PAGE.partition("## Dependencies")[2].lower()
    for requirement in project["dependencies"]:
        name = re.match(r"[\w-]+", requirement)
        assert name and f"| {name[0].lower()} |" in dependencies
