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
WRONG = "wrong_uses.py"
# The first error of each line with one, by the name of the script.
Found = dict[str, dict[int, str]]


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


def mypy(python: Path, folder: Path, scripts: list[Path]) -> Found:
    """The first error of mypy --strict in each line of each script."""
    command = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "--config-file="]
    command += ["--python-executable", str(python), "--cache-dir", str(CACHE)]
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # another test process may be at it
        made = run([*command, *map(str, scripts)], folder)
    assert made.returncode in (0, 1), made.stdout + made.stderr
    found: Found = {script.name: {} for script in scripts}
    for line in made.stdout.splitlines():
        match = re.match(r"(?:.*/)?([^/:]+):(\d+): error: (.*)", line)
        if match is None or match[1] not in found:
            assert ": note: " in line, line  # an error in another file is one of ours
        else:
            found[match[1]].setdefault(int(match[2]), match[3])
    return found


def pyright(python: Path, folder: Path, scripts: list[Path]) -> Found:
    """The first error of pyright, in its strict mode, in each line of each script."""
    for script in scripts:
        (folder / script.name).write_text(script.read_text(encoding="utf-8"), encoding="utf-8")
    names = [script.name for script in scripts]
    settings: dict[str, object] = {"typeCheckingMode": "strict", "include": names}
    # what torch, onnx and onnxruntime leave unsaid is theirs
    unsaid = ("MemberType", "VariableType", "ArgumentType", "ParameterType", "LambdaType")
    settings |= {f"reportUnknown{name}": False for name in unsaid}
    settings |= {"reportUnusedExpression": False, "reportPrivateImportUsage": True}
    settings |= {"reportMissingTypeStubs": False}
    (folder / "pyrightconfig.json").write_text(json.dumps(settings))
    command = [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", str(python)]
    made = run([*command, "--project", str(folder)], folder)
    assert made.returncode in (0, 1), made.stdout + made.stderr
    found: Found = {name: {} for name in names}
    answer = json.loads(made.stdout)
    assert answer["summary"]["filesAnalyzed"] == len(scripts)
    for each in answer["generalDiagnostics"]:
        if each["severity"] == "error":
            lines = found[Path(each["file"]).name]
            lines.setdefault(each["range"]["start"]["line"] + 1, each["message"])
    return found


CHECKERS = {"mypy": mypy, "pyright": pyright}


@pytest.fixture(scope="module", params=CHECKERS)
def found(
    request: pytest.FixtureRequest, python: Path, tmp_path_factory: pytest.TempPathFactory
) -> Found:
    """What a checker says of all scripts: it reads torch and ortable once for the three."""
    wrong = tmp_path_factory.mktemp("scripts") / WRONG
    wrong.write_text("\n".join(["import ortable", *_wrong_uses()]) + "\n")
    folder = tmp_path_factory.mktemp(request.param)
    return CHECKERS[request.param](python, folder, [GOOD, BAD, wrong])


def _wrong_uses() -> list[str]:
    return [f"ortable.{name}.no_such_attribute_of_it" for name in ortable.__all__]


@pytest.mark.slow
def test_a_users_script_passes(found: Found) -> None:
    assert found[GOOD.name] == {}


def test_mistakes_are_refused(found: Found) -> None:
    lines = BAD.read_text(encoding="utf-8").splitlines()
    wanted = {number for number, line in enumerate(lines, 1) if line.endswith("# refused")}
    assert set(found[BAD.name]) == wanted, found[BAD.name]


def test_no_public_name_is_any(found: Found) -> None:
    """A name of type Any lets every mistake pass: a wrong use of each must be refused."""
    uses = list(enumerate(_wrong_uses(), 2))
    assert [use for number, use in uses if number not in found[WRONG]] == []


def test_the_script_uses_every_public_name() -> None:
    text = GOOD.read_text(encoding="utf-8")
    missing = [name for name in ortable.__all__ if not re.search(rf"\b{name}\b", text)]
    assert missing == []
