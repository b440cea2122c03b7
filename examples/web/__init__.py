"""A page that runs two exported models in the browser: its packages of npm, with versions."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

RUNTIME = ("onnxruntime-web@1.30.0",)
BROWSER = ("@sparticuz/chromium@153.0.0", "playwright-core@1.65.1")


class InstallError(RuntimeError):
    """npm could not install a package, for example without a network."""


def install_packages(folder: Path, packages: Sequence[str]) -> Path:
    """Install packages of npm, unless exactly these are installed, and return their folder.

    Raises InstallError if npm fails.
    """
    stamp = folder / "packages.txt"
    if not stamp.exists() or stamp.read_text() != "\n".join(packages):
        folder.mkdir(parents=True, exist_ok=True)
        command = ["npm", "install", "--silent", "--prefix", folder, *packages]
        if subprocess.run(command, check=False).returncode != 0:
            raise InstallError(f"npm cannot install {' '.join(packages)}")
        stamp.write_text("\n".join(packages))
    return folder / "node_modules"
