"""Golden texts of error messages in ``tests/errors/golden.txt``, each below the name of its case.

``python -m tests.errors.golden`` rewrites the file after an intended change; review the diff
before you commit it.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Mapping
from pathlib import Path

import torch

from .cases import CASES, ShellError

TABLE = Path(__file__).with_suffix(".txt")
_HEAD = re.compile(r"^== (\w+)\n", re.MULTILINE)
_VARIABLE_TEXT = (
    (re.compile(r"(?<![\w.])/(?:[\w.+-]+/)+(?=[\w.+-]+\.py\b)"), ""),  # folders of Python files
    (re.compile(re.escape(tempfile.gettempdir()) + r"/[\w/]+/"), "TMP/"),
    (re.compile(r"(\.py):\d+"), r"\1:N"),
    (re.compile(r"(ONNX Runtime|onnxruntime|torch) \d+\.\d+[\w.+]*"), r"\1 X.Y"),
    (re.compile(r"0x[0-9a-f]{6,}"), "0x..."),
    (re.compile(r"\([A-Z]{3}\)"), "(XYZ)"),  # names of graph builders
    (re.compile(r"\d\d:\d\d:\d\d\.\d+"), "TIME"),
    (re.compile(r"\d+\.\d+ s\b"), "0.0 s"),
)


def error_of(name: str) -> Exception:
    """Return the error that a case raises, without torch's wrapper."""
    torch.compiler.reset()
    try:
        CASES[name]()
    except Exception as error:  # some cases raise an error of torch
        return getattr(error, "inner_exception", None) or error
    raise AssertionError(f"{name} raises nothing")


def text_of(error: Exception) -> str:
    """Return the class and the message of an error, without text that depends on the machine."""
    text = str(error) if isinstance(error, ShellError) else f"{type(error).__name__}: {error}"
    for pattern, replacement in _VARIABLE_TEXT:
        text = pattern.sub(replacement, text)
    return "\n".join(line.rstrip() for line in text.splitlines()) + "\n"


def read_table() -> dict[str, str]:
    """Return the golden texts by case."""
    _, *parts = _HEAD.split(TABLE.read_text(encoding="utf-8"))
    return dict(zip(parts[::2], parts[1::2], strict=True))


def write_table(texts: Mapping[str, str]) -> None:
    """Write the golden texts."""
    table = "".join(f"== {name}\n{text}" for name, text in sorted(texts.items()))
    TABLE.write_text(table, encoding="utf-8")


def main() -> None:
    """Rewrite the table."""
    write_table({name: text_of(error_of(name)) for name in CASES})


if __name__ == "__main__":
    main()
