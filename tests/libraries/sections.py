"""Run one section of docs/libraries.md in the current folder, and compare its results.

`checks.py` writes the files that the code of the page reads, and compares.
"""

from __future__ import annotations

import re
import sys
import types
import warnings
from pathlib import Path

import torch

PAGE = Path(__file__).resolve().parents[2] / "docs" / "libraries.md"
_SECTION = re.compile(r"^## ([\w-]+)\n(.*?)(?=^## |\Z)", flags=re.MULTILINE | re.DOTALL)
_BLOCK = re.compile(r"^```py\n(.*?)^```", flags=re.MULTILINE | re.DOTALL)


def read_sections() -> dict[str, list[str]]:
    """Return the blocks of code of each section of the page, by its heading in small letters."""
    sections = _SECTION.findall(PAGE.read_text(encoding="utf-8"))
    return {name.lower(): _BLOCK.findall(text) for name, text in sections}


def run_block(name: str, code: str, names: dict[str, object]) -> None:
    """Run a block from a file, because torch reads sources."""
    file = Path(f"{name.replace('-', '_')}_{len(list(Path().glob('*.py')))}.py").absolute()
    file.write_text(code, encoding="utf-8")
    exec(compile(code, str(file), "exec"), names)


def main(name: str) -> None:
    """Prepare, run and check a section."""
    from . import checks

    warnings.simplefilter("ignore")
    torch.manual_seed(0)
    topic = name.replace("-", "_")
    getattr(checks, f"prepare_{topic}", lambda: None)()
    module = types.ModuleType("page")
    sys.modules["page"] = module
    check = getattr(checks, f"check_{topic}")
    for index, code in enumerate(read_sections()[name]):
        run_block(name, code, vars(module))
        check(index, types.SimpleNamespace(**vars(module)))
    print(f"{name}: equal")


if __name__ == "__main__":
    main(sys.argv[1])
