"""Benchmarks are packages that run from the root of the repository and do not import tests."""

from __future__ import annotations

import re

from benchmarks.models.architectures import ARCHITECTURES
from benchmarks.models.inference import MODELS
from benchmarks.models.training import SMALL_TRAINABLES, TRAINABLES
from tests.child import python
from tests.packaging.files import ROOT, imports

FOLDER = ROOT / "benchmarks"
SOURCES = sorted(FOLDER.rglob("*.py"))
TOPICS = sorted(path.parent.name for path in FOLDER.glob("*/__main__.py"))


def test_the_topics_are_those_of_the_makefile_and_the_readme() -> None:
    assert TOPICS == [
        "accuracy", "autotune", "backend", "cache", "conversion", "cuda", "decode", "large_model",
        "load", "op_cost", "plots", "rewrites", "rivals", "training", "variants",
    ]  # fmt: skip
    page = (FOLDER / "README.md").read_text(encoding="utf-8")
    assert set(re.findall(r"\bbenchmarks\.(\w+)", page)) == set(TOPICS)
    assert set(re.findall(r"\bTOPIC=(\w+)", page)) <= set(TOPICS)
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert "-m benchmarks.$(TOPIC)" in makefile
    assert set(re.findall(r"\b(?:benchmarks\.|TOPIC=)(\w+)", makefile)) <= set(TOPICS)


PRINT_HELP = """
import contextlib, runpy, sys
for topic in sys.argv.pop(1).split():
    sys.argv[1:] = ["--help"]
    with contextlib.suppress(SystemExit):
        runpy.run_module(f"benchmarks.{topic}", run_name="__main__")
"""


def test_topics_run_as_modules_from_the_root() -> None:
    process = python("-c", PRINT_HELP, " ".join(TOPICS))
    assert process.returncode == 0, process.stderr[-3000:]
    for topic in TOPICS:
        assert f"python -m benchmarks.{topic} [-h]" in process.stdout


def test_benchmarks_import_no_tests_and_leave_the_path_alone() -> None:
    assert len(SOURCES) > 20
    for path in SOURCES:
        assert "sys.path" not in path.read_text(encoding="utf-8"), path
        modules = [imported.module for imported in imports(path, ROOT)]
        assert not [name for name in modules if name.split(".")[0] == "tests"], path


def test_models_import_no_benchmark_and_topics_import_measures_alone() -> None:
    """A topic may import only module `measure` of another topic."""
    for path in SOURCES:
        package = path.relative_to(FOLDER).parts[0]
        for imported in imports(path, ROOT):
            parts = imported.module.split(".")
            if parts[0] != "benchmarks" or len(parts) < 2:
                continue
            if package == "models":
                assert parts[1] == "models", (path, imported)
            elif parts[1] in TOPICS and parts[1] != package:
                assert parts[2:3] == ["measure"], (path, imported)


def test_the_sets_of_models_share_names() -> None:
    """A model in several sets has the same name in each of them."""
    assert list(TRAINABLES) == list(SMALL_TRAINABLES)
    shared = set(MODELS) & set(ARCHITECTURES)
    assert {"mlp", "resnet18", "densenet121", "vit", "bert", "gpt2", "llama", "dlrm"} <= shared
