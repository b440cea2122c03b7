"""Rules of the repository: function length, module docstrings, forbidden text, links and pins."""

from __future__ import annotations

import ast
import re
import tomllib

import pytest
import yaml

from tests.packaging.files import ROOT, text_files

MAX_BODY_LINES = 60  # of a function; a file may be longer
HERE = "tests/packaging/test_repository.py"  # contains the forbidden patterns
FORBIDDEN = {
    "a path outside the repository": r"(?<![\w.$}~)])/(?:work|root|tmp|home|opt|Users)/\w",
    "an issue number": r"\b(?:[Ii]ssue|PR) ?#?\d+\b",
    "a working note": r"\bshared/(?:design|seeds)\b|\bseed \d{3}\b",
}
# `ortable.from_seed_style` is public; "random seed" is not a working note.


def list_files(*suffixes: str) -> list[str]:
    return [path.as_posix() for path in text_files() if path.suffix in suffixes]


def test_the_walk_finds_the_project() -> None:
    names = {path.as_posix() for path in text_files()}
    assert {"README.md", "Makefile", "pyproject.toml", ".ci/run", HERE} <= names
    assert not any(".venv" in name for name in names)


def test_function_bodies_fit_a_screen() -> None:
    long = [
        f"{name}:{node.lineno} {node.name}: {lines} lines"
        for name in list_files(".py")
        if name.startswith(("runtime/", "codegen/", "benchmarks/", "tests/", "examples/"))
        for node in ast.walk(ast.parse((ROOT / name).read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (lines := count_body_lines(node)) > MAX_BODY_LINES
    ]
    assert not long, "\n".join(long)


def count_body_lines(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Return the number of lines of a function without its signature and docstring."""
    body = node.body[1:] if ast.get_docstring(node) is not None else node.body
    return body[-1].end_lineno - body[0].lineno + 1 if body else 0  # type: ignore[operator]


def test_the_plan_names_files_that_exist() -> None:
    """Paths in docs/architecture.md are relative to the root or to runtime/ortable."""
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    paths = re.findall(r"`([\w.]+(?:/[\w.]+)+/?)`", text)
    assert len(paths) > 20
    roots = (ROOT, ROOT / "runtime" / "ortable")
    assert [name for name in paths if not any((root / name).exists() for root in roots)] == []


def test_every_python_file_says_what_it_is_for() -> None:
    undocumented = [
        name
        for name in list_files(".py")
        if not name.startswith("generated/")
        and (text := (ROOT / name).read_text(encoding="utf-8")).strip()
        and len(ast.get_docstring(ast.parse(text)) or "") < 12
    ]
    assert not undocumented


@pytest.mark.parametrize("kind", FORBIDDEN)
def test_no_file_names(kind: str) -> None:
    pattern = re.compile(FORBIDDEN[kind])
    lines = []
    for path in text_files():
        if path.as_posix() == HERE:
            continue
        for line_number, line in enumerate(
            (ROOT / path).read_text(encoding="utf-8").splitlines(), 1
        ):
            if pattern.search(line):
                lines.append(f"{path.as_posix()}:{line_number}: {line.strip()[:120]}")
    assert not lines, f"these lines contain {kind}:\n" + "\n".join(lines)


def test_links_between_documents_exist() -> None:
    broken = []
    for name in list_files(".md"):
        document = ROOT / name
        for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", document.read_text(encoding="utf-8")):
            if "://" not in target and not (document.parent / target).exists():
                broken.append(f"{name}: {target}")
    assert not broken, "\n".join(broken)


def parse_requirement_name(requirement: str) -> str:
    """Return the normalized name: ``"coverage[toml]>=7.6"`` -> ``"coverage"``."""
    match = re.match(r"[A-Za-z0-9._-]+", requirement)
    assert match is not None
    return re.sub(r"[-_.]+", "-", match.group()).lower()


def test_every_direct_requirement_is_pinned() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    required = {
        parse_requirement_name(requirement)
        for group in (project["dependencies"], *project["optional-dependencies"].values())
        for requirement in group
    } - {"ortable"}
    pinned = {
        parse_requirement_name(line)
        for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
        if line and not line.startswith("#")
    }
    assert required <= pinned, f"missing from constraints.txt: {sorted(required - pinned)}"


def test_every_pin_is_exact() -> None:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    loose = [line for line in lines if line and not re.fullmatch(r"#.*|[\w.-]+==[\w.]+", line)]
    assert not loose


def test_makefile_targets_are_the_documented_ones() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z-]+):", makefile, flags=re.MULTILINE))
    assert {"run", "test", "codegen", "check", "conformance", "bench", "clean", "help"} <= targets
    phony = re.search(r"^\.PHONY: (.*)$", makefile, flags=re.MULTILINE)
    assert phony is not None
    assert set(phony.group(1).split()) == targets


def test_workflows_call_targets_that_exist() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z-]+):", makefile, flags=re.MULTILINE))
    used_targets = []
    for path in (ROOT / ".github" / "workflows").glob("*.yml"):
        jobs = yaml.safe_load(path.read_text(encoding="utf-8"))["jobs"]
        commands = [step.get("run", "") for job in jobs.values() for step in job["steps"]]
        used_targets += re.findall(r"\bmake ([a-z-]+)", "\n".join(commands))
        assert all(
            (ROOT / name).exists()
            for command in commands
            for name in re.findall(r"(?:\.ci|examples)/[\w.]+", command)
        )
    assert used_targets
    assert set(used_targets) <= targets


def test_each_decision_has_a_number_a_date_and_a_status() -> None:
    text = (ROOT / "docs" / "decisions.md").read_text()
    titles = re.findall(r"^\*\*.*", text, re.MULTILINE)
    matches = [
        re.match(r"\*\*D(\d+)\. .+?\*\* \(\d{4}-\d\d-\d\d, (accepted|superseded by D\d+)\)", title)
        for title in titles
    ]
    assert None not in matches, [
        t for t, match in zip(titles, matches, strict=True) if match is None
    ]
    numbers = [int(match[1]) for match in matches if match is not None]
    assert len(set(numbers)) == len(numbers)
    replacing = {int(n) for n in re.findall(r"superseded by D(\d+)", text)}
    assert replacing <= set(numbers)
