"""Codegen writes only changed files, deletes orphans, and writes nothing if it fails."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ortablegen.cli import Generated, generate, main
from ortablegen.schemas import onnx as onnx_schemas
from ortablegen.source.writer import compare_tree, write_tree
from ortablegen.stamp import is_unchanged, write_stamp

ROOT = Path(__file__).parents[2]
DISPATCH = Path("generated") / "ortable_generated" / "aten" / "dispatch.py"


@pytest.fixture(scope="module")
def output() -> Generated:
    """Generate from the specs of the repository while queries of installed operators raise.

    Schemas come from the record; torch only parses their texts.
    """

    def raise_error(*_: object) -> None:
        raise AssertionError("codegen queried an installed library for its operators")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("torch._C._jit_get_all_schemas", raise_error)
        patch.setattr("ortablegen.schemas.registry.registered_schema", raise_error)
        patch.setattr("ortablegen.schemas.registry.import_problem", raise_error)
        patch.setattr("ortablegen.schemas.onnx.installed_history", raise_error)
        for get in (onnx_schemas.operators, onnx_schemas.schema_at, onnx_schemas.versions_between):
            get.cache_clear()
        return generate(ROOT)


@pytest.fixture(scope="module")
def copied_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Copy the specs to a folder and run codegen there over an invalid generated file."""
    root = _copy_specs(tmp_path_factory.mktemp("copied"))
    broken = root / DISPATCH
    broken.parent.mkdir(parents=True)
    broken.write_text("this is no Python (")
    assert main(["generate", "--root", str(root)]) == 0
    return root


def test_only_changed_files_are_written_and_orphans_deleted(tmp_path: Path) -> None:
    first = write_tree({"a/x.py": "1\n", "a/y.py": "2\n", "b/z.py": "3\n"}, tmp_path)
    assert first.written == ("a/x.py", "a/y.py", "b/z.py")
    stamp = (tmp_path / "a/x.py").stat().st_mtime_ns
    second = write_tree({"a/x.py": "1\n", "a/y.py": "22\n"}, tmp_path)
    assert second.written == ("a/y.py",)
    assert second.deleted == ("b/z.py",)
    assert second.unchanged == 1
    assert (tmp_path / "a/x.py").stat().st_mtime_ns == stamp
    assert not (tmp_path / "b").exists()


@pytest.mark.slow
def test_generated_is_fresh_and_asks_nothing_of_the_installed_versions(output: Generated) -> None:
    report = compare_tree(output.files, ROOT / "generated")
    assert report.written == (), "run `make codegen` and commit the result"
    assert report.deleted == ()
    for page, text in output.pages.items():
        assert (ROOT / page).read_text() == text, "run `make codegen`"


def _copy_specs(tmp_path: Path) -> Path:
    shutil.copytree(ROOT / "specs", tmp_path / "specs")
    shutil.copytree(ROOT / "docs", tmp_path / "docs")
    (tmp_path / "generated").mkdir()
    return tmp_path


@pytest.mark.slow
def test_codegen_starts_from_an_empty_or_broken_generated_folder(copied_root: Path) -> None:
    assert (copied_root / DISPATCH).read_text() == (ROOT / DISPATCH).read_text()
    assert main(["check", "--root", str(copied_root)]) == 0


def test_a_spec_error_writes_nothing_and_exits_with_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = _copy_specs(tmp_path)
    spec = root / "specs" / "aten" / "pad.yaml"
    spec.write_text(spec.read_text().replace("return Pad(", "return Padd("))
    assert main(["generate", "--root", str(root)]) == 1
    printed = capsys.readouterr().err
    assert "specs/aten/pad.yaml:" in printed
    assert "ONNX has no operator 'Padd'" in printed
    assert "nothing was written" in printed
    assert list((root / "generated").iterdir()) == []


@pytest.mark.slow
def test_check_names_the_stale_file_the_command_and_the_difference(
    copied_root: Path,
    output: Generated,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("ortablegen.cli.generate", lambda _: output)  # the specs are equal
    root = shutil.copytree(copied_root, tmp_path / "root")
    stale = root / DISPATCH
    stale.write_text(stale.read_text() + "# edited by hand\n")
    (root / "generated" / "ortable_generated" / "old.py").write_text("")
    assert main(["check", "--root", str(root)]) == 1
    (root / "docs" / "operators.md").write_text("old")
    assert main(["check", "--root", str(root)]) == 1
    printed = capsys.readouterr().out
    assert "stale: docs/operators.md" in printed
    assert "stale: generated/ortable_generated/aten/dispatch.py" in printed
    assert "-# edited by hand" in printed
    assert "orphan: generated/ortable_generated/old.py" in printed
    assert "make codegen" in printed


@pytest.mark.slow
def test_generation_is_deterministic(output: Generated, copied_root: Path) -> None:
    report = compare_tree(output.files, copied_root / "generated")
    assert (report.written, report.deleted) == ((), ())
    for page, text in output.pages.items():
        assert (copied_root / page).read_text() == text


def _write_stamped_tree(tmp_path: Path) -> Path:
    for folder in ("specs/aten", "codegen/ortablegen", "runtime/ortable", "generated", "docs"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "file.txt").write_text(folder)
    (tmp_path / "docs" / "operators.md").write_text("a table")
    write_stamp(tmp_path)
    return tmp_path


def test_a_run_with_nothing_changed_ends_before_torch_is_imported(tmp_path: Path) -> None:
    root = _write_stamped_tree(tmp_path)
    program = (
        "import runpy, sys\n"
        "sys.argv = ['ortablegen', 'generate']\n"
        "try:\n    runpy.run_module('ortablegen', run_name='__main__')\n"
        "except SystemExit as end:\n    print('exit', end.code)\n"
        "print('torch' in sys.modules)\n"
    )
    process = subprocess.run(
        [sys.executable, "-c", program], cwd=root, capture_output=True, text=True, check=True
    )
    lines = ["nothing changed since the last run: generated/ is fresh", "exit 0", "False"]
    assert process.stdout.splitlines() == lines


@pytest.mark.parametrize(
    "path",
    [
        "specs/aten/file.txt",
        "codegen/ortablegen/file.txt",
        "runtime/ortable/file.txt",
        "generated/file.txt",
        "docs/operators.md",
    ],
)
def test_every_file_that_codegen_reads_or_writes_is_in_the_stamp(tmp_path: Path, path: str) -> None:
    root = _write_stamped_tree(tmp_path)
    assert is_unchanged(root)
    content = (root / path).read_text()
    (root / path).write_text(content + "x")
    assert not is_unchanged(root)
    (root / path).write_text(content)
    assert is_unchanged(root)
    (root / path).rename(root / (path + ".old"))
    assert not is_unchanged(root)


def test_another_version_of_a_library_is_a_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = _write_stamped_tree(tmp_path)
    monkeypatch.setattr("ortablegen.stamp.metadata.version", lambda name: f"{name} of tomorrow")
    assert not is_unchanged(root)
