"""The list of skips names tests that exist, and a skip outside the list fails the run."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.skips import Allowed, allowed, faulty

ROOT = Path(__file__).parents[2]
SKIP_PATTERN = re.compile(
    r"\b(pytest\.skip|mark\.skip|mark\.skipif|mark\.xfail|importorskip)\(|\bneeds_gloo\b"
)
ROW = Allowed("tests/a.py", "needs dot", 1, "comes with the system")


def _read_test_files() -> dict[str, str]:
    return {
        str(path.relative_to(ROOT)): path.read_text(encoding="utf-8")
        for path in (ROOT / "tests").rglob("test_*.py")
    }


def test_each_row_is_of_a_file_that_skips() -> None:
    sources = _read_test_files()
    for row in allowed():
        assert row.most > 0 and row.because, row
        assert re.search(r"skip|xfail|needs_", sources[row.file]), f"{row.file} skips nothing"


def test_each_file_that_skips_has_a_row() -> None:
    files = {name for name, text in _read_test_files().items() if SKIP_PATTERN.search(text)}
    assert files - {row.file for row in allowed()} <= {"tests/packaging/test_skips.py"}


def test_libraries_of_the_tests_are_imported_and_not_asked_for() -> None:
    """The dev extra installs every library: a test that may skip for one would never run."""
    skipping_files = [name for name, text in _read_test_files().items() if "importorskip(" in text]
    assert skipping_files == ["tests/packaging/test_skips.py"]


@pytest.mark.parametrize(
    ("skipped", "messages"),
    [([], []),
     ([("tests/a.py::test_x", "needs dot, which is absent")], []),
     ([("tests/a.py::test_x", "needs dot")] * 2, ["2 are skipped"]),
     ([("tests/a.py::test_x", "later")], ["tests/a.py::test_x is skipped and not in"]),
     ([("tests/b.py::test_x", "needs dot")], ["tests/b.py::test_x is skipped and not in"]),
     ([("tests/a.py", "could not import 'x'")], ["tests/a.py is skipped and not in"])],
)  # fmt: skip
def test_what_is_wrong_with_skips(skipped: list[tuple[str, str]], messages: list[str]) -> None:
    lines = faulty(skipped, [ROW])
    assert len(lines) == len(messages)
    assert all(text in line for text, line in zip(messages, lines, strict=True))


@pytest.mark.alternates(parts=2)
@pytest.mark.parametrize(
    ("body", "options", "status"),
    [("def test_one():\n    pass", (), 0),
     ("def test_one():\n    pass\n\n\ndef test_two():\n    pytest.skip('later')", ("-n", "1"), 1),
     ("@pytest.mark.xfail(reason='wrong')\ndef test_one():\n    assert 0", (), 1),
     ("pytest.skip('no machine', allow_module_level=True)", (), 1)],
)  # fmt: skip
def test_a_run_is_red(tmp_path: Path, body: str, options: tuple[str, ...], status: int) -> None:
    (tmp_path / "conftest.py").write_text(
        "from tests.skips import Skips\n\n\n"
        "def pytest_configure(config):\n    config.pluginmanager.register(Skips(), 'skips')\n"
    )
    (tmp_path / "test_made.py").write_text(f"import pytest\n\n\n{body}\n")
    result = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *options], cwd=tmp_path, capture_output=True,
        text=True, check=False, env=dict(os.environ, PYTHONPATH=str(ROOT)),
    )  # fmt: skip
    assert result.returncode == status, result.stdout
    report = re.search(r"^SKIPS .* is skipped and not in skips\.yaml", result.stdout, re.MULTILINE)
    assert (report is not None) == bool(status), result.stdout
