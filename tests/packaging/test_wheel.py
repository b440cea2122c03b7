"""The sdist contains the checkout, and the wheel contains three packages and their data files."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from email.message import Message
from email.parser import BytesParser
from pathlib import Path

import pytest

from tests.packaging.files import ROOT, TOP

TOP_FILES = (
    ".editorconfig", ".pre-commit-config.yaml", "LICENSE", "MANIFEST.in", "Makefile", "README.md",
    "constraints.txt", "mkdocs.yml", "pyproject.toml",
)  # fmt: skip
PACKAGE_ROOTS = ("runtime", "generated", "codegen")
CACHES = shutil.ignore_patterns("__pycache__", "*.egg-info", ".pytest_cache", ".hypothesis")


@dataclass(frozen=True)
class BuildResult:
    """The paths in both archives, the output of ``python -m build`` and the wheel's METADATA."""

    sdist: frozenset[str]
    wheel: frozenset[str]
    output: str
    metadata: Message


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> BuildResult:
    """Build both archives from a copy, because building leaves files in the source tree."""
    source = tmp_path_factory.mktemp("source")
    for name in TOP_FILES:
        shutil.copy(ROOT / name, source / name)
    for name in TOP:
        shutil.copytree(ROOT / name, source / name, ignore=CACHES)
    # a cache file, which a used checkout has and an archive must not have
    leftover = source / "runtime" / "ortable" / "__pycache__"
    leftover.mkdir()
    (leftover / "errors.cpython-311.pyc").write_bytes(b"")
    target = tmp_path_factory.mktemp("dist")
    run = subprocess.run(
        [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(target), str(source)],
        capture_output=True,
        text=True,
        timeout=300,
        # without bytecode setuptools warns
        env={k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"},
    )
    assert run.returncode == 0, run.stdout + run.stderr
    (sdist,), (wheel,) = target.glob("ortable-*.tar.gz"), target.glob("ortable-*.whl")
    with tarfile.open(sdist) as archive:
        files = (member.name for member in archive.getmembers() if member.isfile())
        in_sdist = frozenset(name.partition("/")[2] for name in files)
    with zipfile.ZipFile(wheel) as archive:
        in_wheel = frozenset(archive.namelist())
        (name,) = (path for path in in_wheel if path.endswith(".dist-info/METADATA"))
        metadata = BytesParser().parsebytes(archive.read(name))
    return BuildResult(in_sdist, in_wheel, run.stdout + run.stderr, metadata)


def list_package_files(package_root: str, pattern: str) -> set[str]:
    """Return the files of a package root that match a pattern, named as in a wheel."""
    root = ROOT / package_root
    return {path.relative_to(root).as_posix() for path in root.rglob(pattern)}


def iter_checkout_files() -> Iterator[str]:
    yield from TOP_FILES
    for top in TOP:
        for path in (ROOT / top).rglob("*"):
            parts = set(path.relative_to(ROOT).parts)
            caches = {"__pycache__", ".pytest_cache", ".hypothesis"} & parts
            if path.is_file() and not caches and not any(p.endswith(".egg-info") for p in parts):
                yield path.relative_to(ROOT).as_posix()


@pytest.mark.slow
def test_building_does_not_warn(built: BuildResult) -> None:
    lines = built.output.splitlines()
    assert [line for line in lines if re.search(r"warn|deprecat", line, re.IGNORECASE)] == []


def test_the_sdist_holds_the_checkout(built: BuildResult) -> None:
    checkout = set(iter_checkout_files())
    assert {"specs/aten", "tests/specs"} <= {"/".join(name.split("/")[:2]) for name in checkout}
    assert checkout <= built.sdist
    added = {name for name in built.sdist - checkout if ".egg-info/" not in name}
    assert added == {"PKG-INFO", "setup.cfg"}  # setuptools writes both


@pytest.mark.parametrize("package_root", PACKAGE_ROOTS)
def test_every_module_is_in_the_wheel(built: BuildResult, package_root: str) -> None:
    modules = list_package_files(package_root, "*.py")
    assert modules
    assert modules <= built.wheel


def test_data_files_are_in_the_wheel(built: BuildResult) -> None:
    templates = list_package_files("codegen", "*.jinja")
    assert templates
    assert templates <= built.wheel
    assert "ortablegen/schemas/onnx_schemas.jsonl" in built.wheel
    assert "ortable/py.typed" in built.wheel


def test_nothing_else_is_installed(built: BuildResult) -> None:
    tops = {Path(name).parts[0] for name in built.wheel}
    packages = {top for top in tops if not top.endswith(".dist-info")}
    assert packages == {"ortable", "ortable_generated", "ortablegen"}


def test_metadata_leads_people_to_the_project(built: BuildResult) -> None:
    urls = dict(url.split(", ") for url in built.metadata.get_all("Project-URL", []))
    assert set(urls) == {"Repository", "Documentation", "Issues"}
    assert built.metadata["Keywords"] and built.metadata["Summary"]
    assert "Typing :: Typed" in built.metadata.get_all("Classifier", [])


def test_links_of_the_readme_lead_there_from_anywhere(built: BuildResult) -> None:
    """Every link is absolute, because a package index shows the README without other files."""
    urls = dict(url.split(", ") for url in built.metadata.get_all("Project-URL", []))
    base = urls["Repository"] + "/blob/main/"
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    link_targets = dict(re.findall(r"^\[([^\]]+)\]: (\S+)$", readme, flags=re.MULTILINE))
    assert set(re.findall(r"\]\[([^\]]+)\]", readme)) == set(link_targets)
    links = [*link_targets.values(), *re.findall(r"\]\(([^)]+)\)", readme)]
    for link in links:
        assert link.startswith(base), link
        path, _, anchor = link.removeprefix(base).partition("#")
        text = (ROOT / path.removesuffix("?raw=true")).read_text(encoding="utf-8")
        headings = re.findall(r"^#+ (.*)$", text, flags=re.MULTILINE)
        slugs = {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
        assert not anchor or anchor in slugs, link
