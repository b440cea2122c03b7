"""python -m ortablegen and `ortable specs check` where ortable is installed and no specs/ lie."""

from __future__ import annotations

from pathlib import Path

import pytest

from ortable.cli.main import main as shell
from ortablegen.cli import main
from tests.packaging.files import ROOT

VERBS = ("generate", "check", "record-schemas", "kernels")


@pytest.mark.parametrize("verb", VERBS)
def test_a_folder_without_specs_is_explained(
    verb: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main([verb]) == 2
    said = capsys.readouterr()
    assert said.out == "" and len(said.err.splitlines()) <= 6
    assert str(tmp_path) in said.err and "no specs/aten" in said.err
    assert "ortable specs check FILE" in said.err
    assert list(tmp_path.iterdir()) == []


def test_a_folder_inside_a_checkout_is_told_its_root(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(ROOT / "docs")
    assert main(["check"]) == 2
    assert f"--root {ROOT}" in capsys.readouterr().err


def test_the_help_says_what_works_without_a_checkout(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--help"])
    assert ended.value.code == 0
    assert "ortable specs check FILE" in " ".join(capsys.readouterr().out.split())


def test_specs_check_needs_no_checkout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.yaml").write_text((ROOT / "specs" / "aten" / "unique.yaml").read_text())
    assert shell(["specs", "check", "mine.yaml"]) == 0
    assert shell(["specs", "check", "absent.yaml"]) == 1
    assert "absent.yaml" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        shell(["specs", "check", "--help"])
    assert "No checkout of ortable is needed" in " ".join(capsys.readouterr().out.split())
