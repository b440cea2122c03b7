"""Packages of peers, which lie in folders of their own.

They are installed without dependencies, so that the versions of torch, numpy and onnxruntime stay
those of the project.
"""

from __future__ import annotations

import site
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

CACHE = Path.home() / ".cache" / "ortable"


def install_packages(folder: Path, packages: Sequence[str]) -> None:
    """Install pinned packages into a folder, unless this list of them is installed."""
    stamp = folder / "packages.txt"
    if stamp.exists() and stamp.read_text() == "\n".join(packages):
        return
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--upgrade", "--no-deps"]
    subprocess.run([*command, "--target", str(folder), *packages], check=True)
    stamp.write_text("\n".join(packages))


def use_packages(folder: Path) -> None:
    """Let this process import the packages of a folder, after those of the project."""
    site.addsitedir(str(folder))
