"""Write the SBOM of a release: the packages that pip installs with the wheel in dist/.

Run ``python -m tests.support.sbom`` after ``python -m build``. CycloneDX's own tool writes and
validates the file, ``dist/ortable-0.1.0.cdx.json``.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from .environment import ROOT, cache_folder

TOOL = "cyclonedx-bom==7.5.0"


def make_environment(folder: Path, requirement: str) -> Path:
    """Create an environment with a requirement and what it depends on; return its ``bin``."""
    stamp = folder / ".installed"
    if not stamp.exists() or stamp.read_text() != requirement:
        subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True)
        pip = [folder / "bin" / "python", "-m", "pip", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, "install", requirement], check=True)
        stamp.write_text(requirement)
    return folder / "bin"


def write_sbom(python: Path, version: str, target: Path) -> None:
    """Write the packages of an environment, and ortable of a version, as CycloneDX."""
    tool = make_environment(cache_folder() / "sbom", TOOL) / "cyclonedx-py"
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "pyproject.toml"  # the tool reads no version from code
        path.write_text(project.replace('dynamic = ["version"]', f'version = "{version}"'))
        options = ["--pyproject", path, "--mc-type", "library", "--output-reproducible"]
        command = [tool, "environment", *options, "--output-file", target, python]
        subprocess.run(command, check=True)


def main(argv: Sequence[str] | None = None) -> int:
    """Install the wheel in an empty environment, and write its packages beside the wheel."""
    parser = argparse.ArgumentParser(prog="python -m tests.support.sbom", description=__doc__)
    parser.add_argument("--folder", type=Path, default=ROOT / "dist", help="where the wheel is")
    options = parser.parse_args(argv)
    wheels = sorted(options.folder.glob("*.whl"))
    if len(wheels) != 1:
        parser.error(f"{options.folder} has {len(wheels)} wheels: run python -m build first")
    version = wheels[0].name.split("-")[1]
    name = f"ortable-{version}"
    with tempfile.TemporaryDirectory() as folder:
        python = make_environment(Path(folder), str(wheels[0])) / "python"
        # the SBOM would name the path of a wheel that was installed from a path
        for path in Path(folder).glob(
            f"lib/python*/site-packages/{name}.dist-info/direct_url.json"
        ):
            path.unlink()
        write_sbom(python, version, options.folder / f"{name}.cdx.json")
    return 0


if __name__ == "__main__":
    sys.exit(main())
