"""A copy of the source tree in which mutants are applied and restored; each worker has one."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from .mutants import Mutant, mutated

_IGNORED = (".git", ".venv", "build", "dist", "shared", ".*_cache", "*.egg-info")
PACKAGES = ("", "runtime", "generated", "codegen")


class Overlay:
    """A copy of the tree ``root`` in ``folder``."""

    def __init__(self, root: Path, folder: Path) -> None:
        self.root, self.folder = root, folder
        shutil.copytree(root, folder, ignore=shutil.ignore_patterns(*_IGNORED, ".hypothesis"))

    def environment(self) -> dict[str, str]:
        """Return variables that make Python import the copy, with one thread for computation."""
        paths = [str(self.folder / name) for name in PACKAGES]
        # a mutant must not write into a shared cache
        caches = {"XDG_CACHE_HOME": str(self.folder / "cache")}
        variables = {**os.environ, **caches, "OMP_NUM_THREADS": "1"}
        return {**variables, "PYTHONPATH": os.pathsep.join(paths)}

    def apply(self, mutant: Mutant) -> None:
        """Apply a mutant to the copy."""
        path = self.folder / mutant.file
        path.write_text(mutated(mutant, path.read_text()))

    def restore(self, mutant: Mutant) -> None:
        """Restore the file of a mutant and all files that were generated from it."""
        self._copy(Path(mutant.file))
        if mutant.generates:
            for path in (self.root / "generated").rglob("*.py"):
                self._copy(path.relative_to(self.root))
        shutil.rmtree(self.folder / "temporary", ignore_errors=True)
        shutil.rmtree(self.folder / "cache", ignore_errors=True)

    def _copy(self, name: Path) -> None:
        source, target = self.root / name, self.folder / name
        if not target.is_file() or source.read_bytes() != target.read_bytes():
            shutil.copy2(source, target)  # with its time, so that bytecode stays valid
