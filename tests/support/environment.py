"""Virtual environments, reused between runs: with the wheel of this checkout, or beside ours."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# The newest first; the first that starts on this machine is used.
PYTHONS = ("python3.14", "python3.13", "python3.12", "python3.11")
# The libraries named in a row of the table.
VERSIONS = ("torch", "onnx", "onnxruntime", "numpy")

_QUERY = """
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
    """An interpreter with ortable installed: its path, and versions by name, with ``python``."""

    python: Path
    versions: dict[str, str]


def cache_folder() -> Path:
    """Return the folder for environments, below ``XDG_CACHE_HOME`` or ``~/.cache``."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ortable"


def newest_python() -> str:
    """Return the newest supported interpreter of this machine that starts.

    Interpreters of pyenv are searched too, since its shims start only the selected versions.
    """
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
    """Build the wheel from an sdist of this checkout."""
    shutil.rmtree(target, ignore_errors=True)
    _run([sys.executable, "-m", "build", "--outdir", target, ROOT], stdout=subprocess.DEVNULL)
    (wheel,) = target.glob("*.whl")
    return wheel


def install(folder: Path, interpreter: str, wheel: Path, pins: Sequence[str] = ()) -> Environment:
    """Install the wheel with its dev extra and the newest other packages.

    Args:
        folder: the environment, created where it is missing and upgraded otherwise.
        interpreter: the Python that creates the environment.
        wheel: a wheel of ortable.
        pins: requirements that limit a library, such as ``torch==2.14.*``.
    """
    python = folder / "bin" / "python"
    stamp = folder / ".installed"
    if not stamp.exists():  # an interrupted installation starts again
        shutil.rmtree(folder, ignore_errors=True)
        _run([interpreter, "-m", "venv", folder])
    pip = [python, "-m", "pip", "--quiet", "--disable-pip-version-check", "install"]
    _run([*pip, "--upgrade", "--upgrade-strategy", "eager", f"{wheel}[dev]", *pins])
    # the version stays 0.1.0 while the code changes, so pip would not replace an installed wheel
    _run([*pip, "--force-reinstall", "--no-deps", wheel])
    stamp.touch()
    return inspect(python)


def install_beside(folder: Path, packages: Sequence[str]) -> Path:
    """Install packages in an environment that also has those of the current one.

    The environment's own packages are found first; dependencies are not installed.

    Args:
        folder: the environment, created unless exactly these packages are installed there.
        packages: requirements with versions.

    Returns:
        The interpreter of the environment.
    """
    python = folder / "bin" / "python"
    stamp = folder / ".installed"
    base = sysconfig.get_path("purelib")
    content = "\n".join((sys.executable, sys.version, base, *packages))
    if not stamp.exists() or stamp.read_text() != content:
        shutil.rmtree(folder, ignore_errors=True)
        _run([sys.executable, "-m", "venv", folder])
        query = "import sysconfig; print(sysconfig.get_path('purelib'))"
        target = subprocess.run([python, "-c", query], check=True, capture_output=True, text=True)
        # a .pth file may run code: addsitedir also reads the .pth files of editable installs
        line = f"import site; site.addsitedir({base!r})\n"
        Path(target.stdout.strip(), "base.pth").write_text(line)
        pip = [python, "-m", "pip", "--quiet", "--disable-pip-version-check", "install"]
        _run([*pip, "--no-deps", "--ignore-installed", *packages])
        stamp.write_text(content)
    return python


def inspect(python: Path) -> Environment:
    """Return the versions in an environment.

    Raises:
        RuntimeError: ortable is imported from outside the environment's site-packages.
    """
    result = subprocess.run(
        [python, "-c", _QUERY, json.dumps(VERSIONS)],
        check=True,
        capture_output=True,
        text=True,
        cwd=python.parent,
        env={k: v for k, v in os.environ.items() if k != "PYTHONPATH"},
    )
    versions = json.loads(result.stdout.splitlines()[-1])
    file = Path(versions.pop("file"))
    if not file.is_relative_to(python.parent.parent) and not file.is_relative_to(ROOT):
        raise RuntimeError(f"ortable is imported from {file}, not from {python.parent.parent}")
    return Environment(python, versions)
