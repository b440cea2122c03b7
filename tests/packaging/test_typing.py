"""mypy --strict and pyright on a user's script, with ortable installed as a user has it: in the
site-packages of an environment, found by its py.typed, without any setting that looks away."""

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
GOOD, BAD = SCRIPTS / "user_script.py", SCRIPTS / "mistakes.py"
# mypy keeps what it knows of torch there; without it a run takes a minute more.
CACHE = ROOT / ".mypy_cache" / "users"


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment whose packages are those of this one, and ortable."""
    place = tmp_path_factory.mktemp("user") / "venv"
    venv.create(place, symlinks=True, with_pip=False)
    (site,) = (place / "lib").glob("python*/site-packages")
    packages = [ROOT / name for name in ("runtime", "generated", "codegen")]
    paths = [*packages, sysconfig.get_path("purelib"), sysconfig.get_path("platlib")]
    (site / "user.pth").write_text("\n".join(dict.fromkeys(map(str, paths))) + "\n")
    return place / "bin" / "python"


def run(command: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    """A checker in a folder that knows nothing of this repository."""
    hidden = {"PYTHONPATH", "MYPYPATH"}
    environment = {key: value for key, value in os.environ.items() if key not in hidden}
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=900
    )


def mypy(python: Path, folder: Path, script: Path) -> dict[int, str]:
    """Line -> the first error of mypy --strict there."""
    command = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "--config-file="]
    command += ["--python-executable", str(python), "--cache-dir", str(CACHE), str(script)]
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # another test process may be at it
        made = run(command, folder)
    assert made.returncode in (0, 1), made.stdout + made.stderr
    found: dict[int, str] = {}
    for line in made.stdout.splitlines():
        match = re.match(rf".*{script.name}:(\d+): error: (.*)", line)
        if match is None:
            assert ": note: " in line, line  # an error in another file is one of ours
        else:
            found.setdefault(int(match[1]), match[2])
    return found


def pyright(python: Path, folder: Path, script: Path) -> dict[int, str]:
    """Line -> the first error of pyright, in its strict mode, there."""
    copy = folder / "script.py"
    copy.write_text(script.read_text(encoding="utf-8"), encoding="utf-8")
    settings: dict[str, object] = {"typeCheckingMode": "strict", "include": [copy.name]}
    # what torch, onnx and onnxruntime leave unsaid is theirs
    unsaid = ("MemberType", "VariableType", "ArgumentType", "ParameterType", "LambdaType")
    settings |= {f"reportUnknown{name}": False for name in unsaid}
    settings |= {"reportUnusedExpression": False, "reportPrivateImportUsage": True}
    settings |= {"reportMissingTypeStubs": False}
    (folder / "pyrightconfig.json").write_text(json.dumps(settings))
    command = [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", str(python)]
    made = run([*command, "--project", str(folder)], folder)
    assert made.returncode in (0, 1), made.stdout + made.stderr
    found: dict[int, str] = {}
    answer = json.loads(made.stdout)
    assert answer["summary"]["filesAnalyzed"] == 1
    for each in answer["generalDiagnostics"]:
        if each["severity"] == "error":
            found.setdefault(each["range"]["start"]["line"] + 1, each["message"])
    return found


CHECKERS = {"mypy": mypy, "pyright": pyright}


@pytest.mark.parametrize("checker", CHECKERS)
def test_a_users_script_passes(checker: str, python: Path, tmp_path: Path) -> None:
    pytest.importorskip(checker)
    assert CHECKERS[checker](python, tmp_path, GOOD) == {}


@pytest.mark.parametrize("checker", CHECKERS)
def test_mistakes_are_refused(checker: str, python: Path, tmp_path: Path) -> None:
    pytest.importorskip(checker)
    lines = BAD.read_text(encoding="utf-8").splitlines()
    wanted = {number for number, line in enumerate(lines, 1) if line.endswith("# refused")}
    found = CHECKERS[checker](python, tmp_path, BAD)
    assert set(found) == wanted, found


@pytest.mark.parametrize("checker", CHECKERS)
def test_no_public_name_is_any(checker: str, python: Path, tmp_path: Path) -> None:
    """A name of type Any lets every mistake pass: a wrong use of each must be refused."""
    pytest.importorskip(checker)
    script = tmp_path / "wrong_uses.py"
    uses = [f"ortable.{name}.no_such_attribute_of_it" for name in ortable.__all__]
    script.write_text("\n".join(["import ortable", *uses]) + "\n")
    found = CHECKERS[checker](python, tmp_path, script)
    passed = [use for number, use in enumerate(uses, 2) if number not in found]
    assert passed == []


def test_the_script_uses_every_public_name() -> None:
    text = GOOD.read_text(encoding="utf-8")
    missing = [name for name in ortable.__all__ if not re.search(rf"\b{name}\b", text)]
    assert missing == []
