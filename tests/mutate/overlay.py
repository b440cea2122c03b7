"""A copy of the tree in which files are changed and put back.

In come the repository and a folder, out comes an Overlay; called by `runner`, which has one for
each of its processes.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from .mutants import Mutant, mutated

_LEFT_OUT = (".git", ".venv", "build", "dist", "shared", ".*_cache", "*.egg-info")
PACKAGES = ("", "runtime", "generated", "codegen")


class Overlay:
    """A copy of ``root`` in ``folder``."""

    def __init__(self, root: Path, folder: Path) -> None:
        self.root, self.folder = root, folder
        shutil.copytree(root, folder, ignore=shutil.ignore_patterns(*_LEFT_OUT, ".hypothesis"))

    def environment(self) -> dict[str, str]:
        """Variables under which Python finds the packages of the copy, and one thread computes."""
        paths = [str(self.folder / each) for each in PACKAGES]
        # what faulty code puts into a cache is nothing that others should find
        caches = {"XDG_CACHE_HOME": str(self.folder / "cache")}
        found = {**os.environ, **caches, "OMP_NUM_THREADS": "1"}
        return {**found, "PYTHONPATH": os.pathsep.join(paths)}

    def apply(self, mutant: Mutant) -> None:
        """Put the fault into the copy."""
        path = self.folder / mutant.file
        path.write_text(mutated(mutant, path.read_text()))

    def restore(self, mutant: Mutant) -> None:
        """Take it out, and all that was generated from it."""
        self._copy(Path(mutant.file))
        if mutant.generates:
            for path in (self.root / "generated").rglob("*.py"):
                self._copy(path.relative_to(self.root))
        shutil.rmtree(self.folder / "temporary", ignore_errors=True)
        shutil.rmtree(self.folder / "cache", ignore_errors=True)

    def _copy(self, name: Path) -> None:
        source, target = self.root / name, self.folder / name
        if not target.is_file() or source.read_bytes() != target.read_bytes():
            shutil.copy2(source, target)  # with its time: compiled files fit it again
