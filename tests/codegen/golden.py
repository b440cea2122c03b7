"""Golden files of codegen's front ends: each ``fail/*.yaml`` of a front end's folder has the errors
beside it that codegen prints, each ``pass/*.yaml`` the Python that it generates.

``python -m tests.codegen.golden`` rewrites them after a wanted change, those of the front ends that
are named (``aten``, ``onnx``, ``rewrites``) or all; read the diff before you commit it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from .aten import golden as aten
from .onnx import golden as onnx
from .rewrites import golden as rewrites


@dataclass(frozen=True)
class FrontEnd:
    """A folder of golden files, and what codegen says and makes of a file."""

    folder: Path
    errors_of: Callable[[Path], str]
    python_of: Callable[[Path], str]

    def wrong(self) -> list[Path]:
        """Files that are refused."""
        return sorted((self.folder / "fail").glob("*.yaml"))

    def right(self) -> list[Path]:
        """Files that are compiled."""
        return sorted((self.folder / "pass").glob("*.yaml"))


FRONT_ENDS = {
    name: FrontEnd(module.HERE, module.errors_of, module.python_of)
    for name, module in (("aten", aten), ("onnx", onnx), ("rewrites", rewrites))
}


def main() -> None:
    """Rewrite golden files."""
    for name in sys.argv[1:] or FRONT_ENDS:
        front = FRONT_ENDS[name]
        for path in front.wrong():
            path.with_suffix(".err").write_text(front.errors_of(path))
        for path in front.right():
            path.with_suffix(".out").write_text(front.python_of(path))


if __name__ == "__main__":
    main()
