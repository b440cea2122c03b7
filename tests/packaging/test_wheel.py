"""The sdist holds what a checkout holds; the wheel, built from it, holds the three packages and the
files that they read at run time. Neither build warns."""

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

FRAME = (
    ".editorconfig", ".pre-commit-config.yaml", "LICENSE", "MANIFEST.in", "Makefile", "README.md",
    "constraints.txt", "mkdocs.yml", "pyproject.toml",
)  # fmt: skip
PACKAGE_ROOTS = ("runtime", "generated", "codegen")
CACHES = shutil.ignore_patterns("__pycache__", "*.egg-info", ".pytest_cache", ".hypothesis")


@dataclass(frozen=True)
class Built:
    """What ``python -m build`` made: paths in both archives, its output, the wheel's METADATA."""

    sdist: frozenset[str]
    wheel: frozenset[str]
    output: str
    metadata: Message


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    """Built from a copy, because building leaves files in the tree that it builds."""
    source = tmp_path_factory.mktemp("source")
    for name in FRAME:
        shutil.copy(ROOT / name, source / name)
    for name in TOP:
        shutil.copytree(ROOT / name, source / name, ignore=CACHES)
    # what a used checkout has, and no archive should
    leftover = source / "runtime" / "ortable" / "__pycache__"
    leftover.mkdir()
    (leftover / "errors.cpython-311.pyc").write_bytes(b"")
    target = tmp_path_factory.mktemp("dist")
    run = subprocess.run(
        [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(target), str(source)],
        capture_output=True,
        text=True,
        timeout=300,
        # an environment that switches bytecode off makes setuptools warn about that
        env={k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"},
    )
    assert run.returncode == 0, run.stdout + run.stderr
    (sdist,), (wheel,) = target.glob("ortable-*.tar.gz"), target.glob("ortable-*.whl")
    with tarfile.open(sdist) as archive:
        files = (member.name for member in archive.getmembers() if member.isfile())
        in_sdist = frozenset(name.partition("/")[2] for name in files)
    with zipfile.ZipFile(wheel) as archive:
        in_wheel = frozenset(archive.namelist())
        (name,) = (each for each in in_wheel if each.endswith(".dist-info/METADATA"))
        metadata = BytesParser().parsebytes(archive.read(name))
    return Built(in_sdist, in_wheel, run.stdout + run.stderr, metadata)


def expected(package_root: str, pattern: str) -> set[str]:
    """Files of a package root that match, as a wheel names them."""
    root = ROOT / package_root
    return {path.relative_to(root).as_posix() for path in root.rglob(pattern)}


def of_the_checkout() -> Iterator[str]:
    yield from FRAME
    for top in TOP:
        for path in (ROOT / top).rglob("*"):
            parts = set(path.relative_to(ROOT).parts)
            caches = {"__pycache__", ".pytest_cache", ".hypothesis"} & parts
            if path.is_file() and not caches and not any(p.endswith(".egg-info") for p in parts):
                yield path.relative_to(ROOT).as_posix()


@pytest.mark.slow
def test_building_does_not_warn(built: Built) -> None:
    lines = built.output.splitlines()
    assert [line for line in lines if re.search(r"warn|deprecat", line, re.IGNORECASE)] == []


def test_the_sdist_holds_the_checkout(built: Built) -> None:
    checkout = set(of_the_checkout())
    assert {"specs/aten", "tests/specs"} <= {"/".join(name.split("/")[:2]) for name in checkout}
    assert checkout <= built.sdist
    added = {name for name in built.sdist - checkout if ".egg-info/" not in name}
    assert added == {"PKG-INFO", "setup.cfg"}  # setuptools writes both


@pytest.mark.parametrize("package_root", PACKAGE_ROOTS)
def test_every_module_is_in_the_wheel(built: Built, package_root: str) -> None:
    modules = expected(package_root, "*.py")
    assert modules
    assert modules <= built.wheel


def test_data_files_are_in_the_wheel(built: Built) -> None:
    templates = expected("codegen", "*.jinja")
    assert templates
    assert templates <= built.wheel
    assert "ortablegen/schemas/onnx_schemas.jsonl" in built.wheel
    assert "ortable/py.typed" in built.wheel


def test_nothing_else_is_installed(built: Built) -> None:
    tops = {Path(name).parts[0] for name in built.wheel}
    packages = {top for top in tops if not top.endswith(".dist-info")}
    assert packages == {"ortable", "ortable_generated", "ortablegen"}


def test_metadata_leads_people_to_the_project(built: Built) -> None:
    urls = dict(url.split(", ") for url in built.metadata.get_all("Project-URL", []))
    assert set(urls) == {"Repository", "Documentation", "Issues"}
    assert built.metadata["Keywords"] and built.metadata["Summary"]
    assert "Typing :: Typed" in built.metadata.get_all("Classifier", [])


def test_links_of_the_readme_lead_there_from_anywhere(built: Built) -> None:
    """A package index shows the README without the files beside it."""
    urls = dict(url.split(", ") for url in built.metadata.get_all("Project-URL", []))
    base = urls["Repository"] + "/blob/main/"
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    named = dict(re.findall(r"^\[([^\]]+)\]: (\S+)$", readme, flags=re.MULTILINE))
    assert set(re.findall(r"\]\[([^\]]+)\]", readme)) == set(named)
    links = [*named.values(), *re.findall(r"\]\(([^)]+)\)", readme)]
    for link in links:
        assert link.startswith(base), link
        path, _, anchor = link.removeprefix(base).partition("#")
        text = (ROOT / path.removesuffix("?raw=true")).read_text(encoding="utf-8")
        headings = re.findall(r"^#+ (.*)$", text, flags=re.MULTILINE)
        slugs = {re.sub(r"[^\w\- ]", "", each.lower()).replace(" ", "-") for each in headings}
        assert not anchor or anchor in slugs, link
