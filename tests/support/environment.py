"""A virtual environment as a user makes one: the wheel of this checkout, and whatever versions pip
takes for it. It is kept between runs, because torch brings gigabytes of CUDA libraries."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# The newest first; the first that starts on this machine is taken.
PYTHONS = ("python3.14", "python3.13", "python3.12", "python3.11")
# What a row of the table names.
VERSIONS = ("torch", "onnx", "onnxruntime", "numpy")

_ASK = """
import json, sys
from importlib.metadata import version
import ortable
names = json.loads(sys.argv[1])
print(json.dumps({
    "python": ".".join(map(str, sys.version_info[:2])),
    "file": ortable.__file__,
    **{name: version(name).partition("+")[0] for name in names},
}))
"""


@dataclass(frozen=True)
class Environment:
    """An interpreter with ortable installed: its path, and versions by name (``python`` too)."""

    python: Path
    versions: dict[str, str]


def cache_folder() -> Path:
    """Where environments are kept between runs: below ``XDG_CACHE_HOME``, or ``~/.cache``."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ortable"


def newest_python() -> str:
    """The newest supported interpreter of this machine that starts: on the path, or of pyenv, whose
    names on the path start only the versions that are switched on."""
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    for name in PYTHONS:
        for path in (shutil.which(name), *map(str, sorted(pyenv.glob(f"*/bin/{name}")))):
            if path and subprocess.run([path, "-c", ""], capture_output=True).returncode == 0:
                return path
    return sys.executable


def _run(command: Sequence[str | Path], **options: object) -> None:
    print("$", " ".join(str(part) for part in command), flush=True)
    subprocess.run([str(part) for part in command], check=True, **options)  # type: ignore[call-overload]


def build_wheel(target: Path) -> Path:
    """The wheel, built from an sdist that is built from this checkout."""
    shutil.rmtree(target, ignore_errors=True)
    _run([sys.executable, "-m", "build", "--outdir", target, ROOT], stdout=subprocess.DEVNULL)
    (wheel,) = target.glob("*.whl")
    return wheel


def install(folder: Path, interpreter: str, wheel: Path, pins: Sequence[str] = ()) -> Environment:
    """Installs the wheel with its dev extra, everything else as new as pip finds it.

    Args:
        folder: the environment; made when it is not there, brought up to date when it is.
        interpreter: the Python that makes it.
        wheel: a wheel of ortable.
        pins: requirements that hold a library back, such as ``torch==2.14.*``.
    """
    python = folder / "bin" / "python"
    stamp = folder / ".installed"
    if not stamp.exists():  # an interrupted installation starts again
        shutil.rmtree(folder, ignore_errors=True)
        _run([interpreter, "-m", "venv", folder])
    pip = [python, "-m", "pip", "--quiet", "--disable-pip-version-check", "install"]
    _run([*pip, "--upgrade", "--upgrade-strategy", "eager", f"{wheel}[dev]", *pins])
    # the version stays 0.1.0 while the code changes, so pip would keep the wheel that is there
    _run([*pip, "--force-reinstall", "--no-deps", wheel])
    stamp.touch()
    return inspect(python)


def inspect(python: Path) -> Environment:
    """Versions in an environment.

    Raises:
        RuntimeError: ortable comes from somewhere else than this environment's site-packages.
    """
    asked = subprocess.run(
        [python, "-c", _ASK, json.dumps(VERSIONS)],
        check=True,
        capture_output=True,
        text=True,
        cwd=python.parent,
        env={k: v for k, v in os.environ.items() if k != "PYTHONPATH"},
    )
    versions = json.loads(asked.stdout.splitlines()[-1])
    file = Path(versions.pop("file"))
    if not file.is_relative_to(python.parent.parent) and not file.is_relative_to(ROOT):
        raise RuntimeError(f"ortable is imported from {file}, not from {python.parent.parent}")
    return Environment(python, versions)
