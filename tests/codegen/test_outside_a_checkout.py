"""`python -m ortablegen` and `ortable specs check` in a folder without specs/."""

from __future__ import annotations

from pathlib import Path

import pytest

from ortable.cli.main import main as run_ortable
from ortablegen.cli import main
from tests.packaging.files import ROOT

VERBS = ("generate", "check", "record-schemas", "kernels")


@pytest.mark.parametrize("verb", VERBS)
def test_a_folder_without_specs_is_explained(
    verb: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main([verb]) == 2
    output = capsys.readouterr()
    assert output.out == "" and len(output.err.splitlines()) <= 6
    assert str(tmp_path) in output.err and "no specs/aten" in output.err
    assert "ortable specs check FILE" in output.err
    assert list(tmp_path.iterdir()) == []


def test_a_folder_inside_a_checkout_is_told_its_root(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(ROOT / "docs")
    assert main(["check"]) == 2
    assert f"--root {ROOT}" in capsys.readouterr().err


def test_the_help_says_what_works_without_a_checkout(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_info:
        main(["--help"])
    assert exit_info.value.code == 0
    assert "ortable specs check FILE" in " ".join(capsys.readouterr().out.split())


def test_specs_check_needs_no_checkout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.yaml").write_text((ROOT / "specs" / "aten" / "unique.yaml").read_text())
    assert run_ortable(["specs", "check", "mine.yaml"]) == 0
    assert run_ortable(["specs", "check", "absent.yaml"]) == 1
    assert "absent.yaml" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        run_ortable(["specs", "check", "--help"])
    assert "No checkout of ortable is needed" in " ".join(capsys.readouterr().out.split())
