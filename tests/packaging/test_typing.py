"""mypy --strict and pyright check a user's script against an installed ortable."""

from __future__ import annotations

import fcntl
import json
import os
import re
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

import ortable
from tests.packaging.files import ROOT

SCRIPTS = ROOT / "tests" / "packaging" / "typing"
USER_SCRIPT, MISTAKES = SCRIPTS / "user_script.py", SCRIPTS / "mistakes.py"
# mypy caches its analysis of torch here; without the cache a run takes a minute more.
CACHE = ROOT / ".mypy_cache" / "users"
WRONG_USES = "wrong_uses.py"
# The first error of each line that has an error, by the name of the script.
CheckerErrors = dict[str, dict[int, str]]


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Create an environment with the packages of this environment and ortable."""
    root = tmp_path_factory.mktemp("user") / "venv"
    venv.create(root, symlinks=True, with_pip=False)
    (site,) = (root / "lib").glob("python*/site-packages")
    packages = [ROOT / name for name in ("runtime", "generated", "codegen")]
    paths = [*packages, sysconfig.get_path("purelib"), sysconfig.get_path("platlib")]
    (site / "user.pth").write_text("\n".join(dict.fromkeys(map(str, paths))) + "\n")
    return root / "bin" / "python"


def run_checker(command: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a checker in a folder outside this repository."""
    hidden = {"PYTHONPATH", "MYPYPATH"}
    environment = {key: value for key, value in os.environ.items() if key not in hidden}
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=900
    )


def check_with_mypy(python: Path, folder: Path, scripts: list[Path]) -> CheckerErrors:
    """Return the first error of mypy --strict in each line of each script."""
    command = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "--config-file="]
    command += ["--python-executable", str(python), "--cache-dir", str(CACHE)]
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # another test process may be using the cache
        result = run_checker([*command, *map(str, scripts)], folder)
    assert result.returncode in (0, 1), result.stdout + result.stderr
    errors: CheckerErrors = {script.name: {} for script in scripts}
    for line in result.stdout.splitlines():
        parsed = re.match(r"(?:.*/)?([^/:]+):(\d+): error: (.*)", line)
        if parsed is None or parsed[1] not in errors:
            assert ": note: " in line, line  # an error in another file is an error in ortable
        else:
            errors[parsed[1]].setdefault(int(parsed[2]), parsed[3])
    return errors


def check_with_pyright(python: Path, folder: Path, scripts: list[Path]) -> CheckerErrors:
    """Return the first error of pyright's strict mode in each line of each script."""
    for script in scripts:
        (folder / script.name).write_text(script.read_text(encoding="utf-8"), encoding="utf-8")
    names = [script.name for script in scripts]
    settings: dict[str, object] = {"typeCheckingMode": "strict", "include": names}
    # torch, onnx and onnxruntime have incomplete annotations
    unknown_types = ("MemberType", "VariableType", "ArgumentType", "ParameterType", "LambdaType")
    settings |= {f"reportUnknown{name}": False for name in unknown_types}
    settings |= {"reportUnusedExpression": False, "reportPrivateImportUsage": True}
    settings |= {"reportMissingTypeStubs": False}
    (folder / "pyrightconfig.json").write_text(json.dumps(settings))
    command = [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", str(python)]
    result = run_checker([*command, "--project", str(folder)], folder)
    assert result.returncode in (0, 1), result.stdout + result.stderr
    errors: CheckerErrors = {name: {} for name in names}
    report = json.loads(result.stdout)
    assert report["summary"]["filesAnalyzed"] == len(scripts)
    for diagnostic in report["generalDiagnostics"]:
        if diagnostic["severity"] == "error":
            lines = errors[Path(diagnostic["file"]).name]
            lines.setdefault(diagnostic["range"]["start"]["line"] + 1, diagnostic["message"])
    return errors


CHECKERS = {"mypy": check_with_mypy, "pyright": check_with_pyright}


@pytest.fixture(scope="module", params=CHECKERS)
def checker_errors(
    request: pytest.FixtureRequest, python: Path, tmp_path_factory: pytest.TempPathFactory
) -> CheckerErrors:
    """Run one checker on all three scripts at once, so that it reads torch and ortable once."""
    wrong_uses = tmp_path_factory.mktemp("scripts") / WRONG_USES
    wrong_uses.write_text("\n".join(["import ortable", *_list_wrong_uses()]) + "\n")
    folder = tmp_path_factory.mktemp(request.param)
    return CHECKERS[request.param](python, folder, [USER_SCRIPT, MISTAKES, wrong_uses])


def _list_wrong_uses() -> list[str]:
    return [f"ortable.{name}.no_such_attribute_of_it" for name in ortable.__all__]


@pytest.mark.slow
def test_a_users_script_passes(checker_errors: CheckerErrors) -> None:
    assert checker_errors[USER_SCRIPT.name] == {}


def test_mistakes_are_refused(checker_errors: CheckerErrors) -> None:
    lines = MISTAKES.read_text(encoding="utf-8").splitlines()
    expected = {number for number, line in enumerate(lines, 1) if line.endswith("# refused")}
    assert set(checker_errors[MISTAKES.name]) == expected, checker_errors[MISTAKES.name]


def test_no_public_name_is_any(checker_errors: CheckerErrors) -> None:
    """A wrong use of each public name is refused; a name of type Any would let it pass."""
    uses = list(enumerate(_list_wrong_uses(), 2))
    assert [use for number, use in uses if number not in checker_errors[WRONG_USES]] == []


def test_the_script_uses_every_public_name() -> None:
    text = USER_SCRIPT.read_text(encoding="utf-8")
    missing = [name for name in ortable.__all__ if not re.search(rf"\b{name}\b", text)]
    assert missing == []
