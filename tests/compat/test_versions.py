"""A version newer than the tested ones warns once at the first use, and an older one is refused."""

from __future__ import annotations

import importlib
import re
import textwrap
import warnings

import onnx
import onnxruntime
import pytest
import torch

import ortable
from ortable.compat import versions
from ortable.compat.versions import TESTED, check_versions
from ortable.errors import OrtableError, UntestedVersionWarning, VersionError
from tests.child import python
from tests.packaging.files import ROOT

FILTER = re.search(r"warnings\.filterwarnings\(.*\)", (ROOT / "docs/support.md").read_text())


@pytest.fixture
def nothing_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(versions, "_checked", set())


@pytest.mark.parametrize("library", TESTED)
def test_the_installed_version_is_a_tested_one(library: str) -> None:
    """The tests run with tested versions only: a new version is added to TESTED once they pass."""
    version = importlib.import_module(library).__version__
    assert ".".join(version.split(".")[:2]) in TESTED[library]


@pytest.mark.parametrize("library", TESTED)
def test_tested_versions_are_in_order_without_a_gap(library: str) -> None:
    numbers = [tuple(map(int, version.split("."))) for version in TESTED[library]]
    assert numbers == [(numbers[0][0], numbers[0][1] + i) for i in range(len(numbers))]


def test_what_pip_may_install_begins_with_the_oldest_tested_version() -> None:
    text = (ROOT / "pyproject.toml").read_text()
    for library, (oldest, *_) in TESTED.items():
        assert re.search(rf'"{library}>={re.escape(oldest)}(\.0)?"', text), library


def test_the_documents_name_the_tested_versions() -> None:
    page = (ROOT / "docs/support.md").read_text()
    for library, tested in TESTED.items():
        (row,) = [line for line in page.splitlines() if line.startswith(f"| {library} |")]
        assert re.findall(r"\d+\.\d+", row) == list(tested)


@pytest.mark.parametrize("version", ["2.16.0", "2.16.0.dev20261101+cu132", "3.0.1", "2.100"])
def test_a_newer_version_warns_once(version, monkeypatch, nothing_checked) -> None:
    monkeypatch.setattr(torch, "__version__", version)
    with pytest.warns(UntestedVersionWarning, match=re.escape(f"torch {version} is newer")) as log:
        check_versions("torch", "onnx")
    assert len(log) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_versions("torch", "onnx")


@pytest.mark.parametrize("version", ["2.12.9", "2.9.0+cpu", "1.13.1"])
def test_an_older_version_is_refused_each_time(version, monkeypatch, nothing_checked) -> None:
    monkeypatch.setattr(torch, "__version__", version)
    for _ in range(2):
        with pytest.raises(
            VersionError, match=r"older .*: torch 2\.13 to 2\.15\. Install"
        ) as raised:
            ortable.to_onnx(torch.nn.ReLU(), (torch.ones(1),))
        assert isinstance(raised.value, OrtableError) and isinstance(raised.value, ImportError)


@pytest.mark.parametrize("version", [f"{v}.7+cpu" for v in TESTED["torch"]] + ["unknown", "2.15"])
def test_tested_and_unknown_versions_are_silent(version, monkeypatch, nothing_checked) -> None:
    monkeypatch.setattr(torch, "__version__", version)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_versions("torch")


@pytest.mark.parametrize("library", TESTED)
def test_the_backend_warns_at_the_line_that_compiles(library, monkeypatch, nothing_checked) -> None:
    module = {"torch": torch, "onnx": onnx, "onnxruntime": onnxruntime}[library]
    torch.compiler.reset()
    compiled = torch.compile(torch.nn.ReLU(), backend=ortable.onnx_custom_backend)
    monkeypatch.setattr(module, "__version__", "9.0.0")
    with pytest.warns(UntestedVersionWarning, match=f"{library} 9.0.0") as caught:
        compiled(torch.ones(3))
    version_warnings = [w for w in caught if issubclass(w.category, UntestedVersionWarning)]
    assert [warning.filename for warning in version_warnings] == [__file__]
    torch.compiler.reset()


def test_an_export_looks_at_torch_and_onnx_alone(monkeypatch, nothing_checked) -> None:
    monkeypatch.setattr(onnxruntime, "__version__", "9.0.0")
    with warnings.catch_warnings():
        warnings.simplefilter("error", UntestedVersionWarning)
        ortable.to_onnx(torch.nn.ReLU(), (torch.ones(1),))
    monkeypatch.setattr(onnx, "__version__", "9.0.0")
    monkeypatch.setattr(versions, "_checked", set())
    with pytest.warns(UntestedVersionWarning) as caught:
        ortable.to_onnx(torch.nn.ReLU(), (torch.ones(1),))
    assert [warning.filename for warning in caught] == [__file__]


def test_the_filter_that_the_warning_names_silences_it(monkeypatch, nothing_checked) -> None:
    assert FILTER is not None
    monkeypatch.setattr(torch, "__version__", "2.99.0")
    with pytest.warns(UntestedVersionWarning) as caught:
        check_versions("torch")
    assert FILTER.group() in str(caught[0].message)
    monkeypatch.setattr(versions, "_checked", set())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        exec(FILTER.group(), {"warnings": warnings, "ortable": ortable})
        check_versions("torch")


def test_importing_ortable_neither_warns_nor_looks() -> None:
    code = """
        import importlib.metadata, sys, warnings
        warnings.simplefilter("error")
        import ortable, ortable.errors
        assert "torch" not in sys.modules and "onnxruntime" not in sys.modules
        import torch
        torch.__version__ = "2.99.0"
        from ortable import GraphBuilder, OrtOptions, to_onnx
        try:
            to_onnx(torch.nn.ReLU(), (torch.ones(1),))
        except ortable.errors.UntestedVersionWarning as warning:
            print(warning)
    """
    result = python("-c", textwrap.dedent(code))
    assert "torch 2.99.0 is newer" in result.stdout, result.stderr
