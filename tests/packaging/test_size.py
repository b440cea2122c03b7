"""Every package has a size budget in `sizes.yaml`.

A budget more than 3 % too wide must be lowered. A feature that needs more raises its row and states
the reason beside the number.
"""

from __future__ import annotations

import io
import re
import sys
import tokenize
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
import torch
import yaml

import ortable
from ortablegen.language import vocabulary

ROOT = Path(__file__).parents[2]
BUDGETS: dict[str, Any] = yaml.safe_load((Path(__file__).parent / "sizes.yaml").read_text())
_LINEAR = "files that a Linear crosses"
_LAYOUT = (
    tokenize.COMMENT, tokenize.DEDENT, tokenize.ENCODING, tokenize.ENDMARKER, tokenize.INDENT,
    tokenize.NEWLINE, tokenize.NL,
)  # fmt: skip


def count_tokens(text: str) -> int:
    """Count the tokens of Python code, without comments and layout."""
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return sum(token.type not in _LAYOUT for token in tokens)


def measure_code(folder: str) -> tuple[int, int]:
    """Return lines and tokens of the Python files in a folder, or only at its top for "/."."""
    files = ROOT.joinpath(folder)
    paths = files.glob("*.py") if folder.endswith("/.") else files.rglob("*.py")
    texts = [path.read_text(encoding="utf-8") for path in paths]
    return sum(text.count("\n") for text in texts), sum(map(count_tokens, texts))


def count_other() -> dict[str, int]:
    """Count the sizes with a budget that are not code folders."""
    pages = [*(ROOT / "docs").glob("*.md")]
    word_count = sum(len(path.read_text(encoding="utf-8").split()) for path in pages)
    targets = re.findall(r"^[a-z-]+:.*##", (ROOT / "Makefile").read_text(), re.MULTILINE)
    language = len(vocabulary.load_prelude())
    return {
        "pages of the documentation": len(pages),
        "words of the documentation": word_count,
        "targets of make": len(targets),
        "functions of the language": language,
        "functions of rewrites": len(vocabulary.rewrite_helpers()) - language,
        _LINEAR: count_files_of_linear(),
    }


def count_files_of_linear() -> int:
    """Count the files of ortable whose functions run while a Linear is exported."""
    module, x = torch.nn.Linear(3, 2), torch.randn(1, 3)
    ortable.to_onnx(module, (x,))  # the first call imports modules, which must not be counted
    roots = [str(ROOT / part) for part in ("runtime", "generated")]
    files: set[str] = set()

    def record_file(frame: FrameType, event: str, argument: object) -> None:
        file = frame.f_code.co_filename
        if event == "call" and any(file.startswith(part) for part in roots):
            files.add(file)

    previous_profiler = sys.getprofile()
    sys.setprofile(record_file)
    try:
        ortable.to_onnx(module, (x,))
    finally:
        sys.setprofile(previous_profiler)
    return len(files)


def check_budget(name: str, number: int, budget: int) -> None:
    assert number <= budget, f"{name}: {number}, and the budget is {budget}"
    if name == _LINEAR:  # an earlier test may have filled a cache
        return
    assert number >= 0.97 * budget, f"{name}: {number}; lower the budget of {budget} in sizes.yaml"


@pytest.mark.parametrize("folder", BUDGETS["code"])
def test_a_package_keeps_its_budget(folder: str) -> None:
    lines, tokens = measure_code(folder)
    print(f"{folder}: {lines} lines, {tokens} tokens")
    check_budget(f"lines of {folder}", lines, BUDGETS["code"][folder]["lines"])
    check_budget(f"tokens of {folder}", tokens, BUDGETS["code"][folder]["tokens"])


def test_every_package_has_a_budget() -> None:
    packages = {f"runtime/ortable/{path.parent.name}" for path in
                (ROOT / "runtime" / "ortable").glob("*/__init__.py")}  # fmt: skip
    folders = {"runtime/ortable/.", "codegen", "generated", "tests"}
    assert set(BUDGETS["code"]) == packages | folders


def test_what_is_no_code_keeps_its_budget() -> None:
    sizes = count_other()
    assert set(sizes) == set(BUDGETS["other"])
    for name, number in sizes.items():
        check_budget(name, number, BUDGETS["other"][name])
