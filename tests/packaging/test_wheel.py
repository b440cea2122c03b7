"""A wheel holds the three packages and the files that they read at run time."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.packaging.files import ROOT

FRAME = ("pyproject.toml", "README.md", "LICENSE")
PACKAGE_ROOTS = ("runtime", "generated", "codegen")


@pytest.fixture(scope="module")
def names(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """Paths in a wheel built from a copy: building leaves files in the tree that it builds."""
    source = tmp_path_factory.mktemp("source")
    for name in FRAME:
        shutil.copy(ROOT / name, source / name)
    for name in PACKAGE_ROOTS:
        ignored = shutil.ignore_patterns("__pycache__", "*.egg-info")
        shutil.copytree(ROOT / name, source / name, ignore=ignored)
    target = tmp_path_factory.mktemp("wheel")
    command = ["wheel", "--quiet", "--no-deps", "--no-build-isolation", "-w", str(target)]
    run = subprocess.run(
        [sys.executable, "-m", "pip", *command, str(source)],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    (wheel,) = target.glob("ortable-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def expected(package_root: str, pattern: str) -> set[str]:
    """Files of a package root that match, as a wheel names them."""
    root = ROOT / package_root
    return {path.relative_to(root).as_posix() for path in root.rglob(pattern)}


@pytest.mark.parametrize("package_root", PACKAGE_ROOTS)
def test_every_module_is_in_the_wheel(names: set[str], package_root: str) -> None:
    modules = expected(package_root, "*.py")
    assert modules
    assert modules <= names


def test_the_templates_of_codegen_are_in_the_wheel(names: set[str]) -> None:
    templates = expected("codegen", "*.jinja")
    assert templates
    assert templates <= names


def test_nothing_else_is_installed(names: set[str]) -> None:
    tops = {Path(name).parts[0] for name in names}
    packages = {top for top in tops if not top.endswith(".dist-info")}
    assert packages == {"ortable", "ortable_generated", "ortablegen"}
