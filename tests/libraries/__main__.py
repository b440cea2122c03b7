"""Run each section of docs/libraries.md with its library, and compare the results with eager.

A library lies in an environment of its own below ~/.cache/ortable, which the first run installs.
The exit status is 1 when a section fails.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import yaml

from tests.rotation import rotation_seed
from tests.support.environment import ROOT, cache_folder, install_beside

PACKAGES: dict[str, list[str]] = yaml.safe_load(
    (Path(__file__).parent / "libraries.yaml").read_text()
)
LIMIT_S = 900


def parse(arguments: Sequence[str] | None = None) -> list[str]:
    """Return the names of the sections to run."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.libraries", description=__doc__.splitlines()[0]
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(PACKAGES)}")
    parser.add_argument("--bounded", action="store_true", help="two sections, by the tested code")
    options = parser.parse_args(arguments)
    if unknown := set(options.names) - set(PACKAGES):
        parser.error(f"there is no section {', '.join(sorted(unknown))}")
    names = options.names or list(PACKAGES)
    return select_names(names, rotation_seed()) if options.bounded else names


def select_names(names: Sequence[str], number: int) -> list[str]:
    """Return two sections of a bounded run, of which at most one is slow; numbers reach all."""
    return [names[(number + step) % len(names)] for step in (0, len(names) // 2)]


def find_python(name: str) -> Path:
    """Return the interpreter of a section, and install its packages unless they are there."""
    packages = PACKAGES[name]
    if not packages:
        return Path(sys.executable)
    folder = next(other for other, pins in PACKAGES.items() if pins == packages)
    return install_beside(cache_folder() / "libraries" / folder, packages)


def run_section(name: str) -> int:
    """Run a section in a process and an empty folder, offline; return the exit status."""
    parts = (".", "runtime", "generated", "codegen")
    with tempfile.TemporaryDirectory() as folder:
        variables = {
            "PYTHONPATH": os.pathsep.join(str(ROOT / part) for part in parts),
            "HF_HUB_OFFLINE": "1",
            "MLFLOW_DISABLE_TELEMETRY": "true",
            "MLFLOW_TRACKING_URI": "sqlite:///runs.db",
            "YOLO_CONFIG_DIR": folder,
            "YOLO_OFFLINE": "true",
        }
        command = [find_python(name), "-m", "tests.libraries.sections", name]
        try:
            environment = {**os.environ, **variables}
            return subprocess.run(
                command, cwd=folder, env=environment, timeout=LIMIT_S, check=False
            ).returncode
        except subprocess.TimeoutExpired:
            print(f"no result after {LIMIT_S} s")
            return 1


def main() -> int:
    failures = []
    names = parse()
    for name in names:
        print(f"== {name}", flush=True)
        if run_section(name):
            failures.append(name)
    print(f"{len(names) - len(failures)} of {len(names)} sections are equal to eager")
    print("".join(f"failed: {name}\n" for name in failures), end="")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
