"""The worst messages that a user can meet, as golden texts: ``tests/errors/<case>.txt``.

``python -m tests.errors.golden`` rewrites them after a wanted change; read the diff before you
commit it.
"""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

import torch

from .cases import CASES, ShellError

HERE = Path(__file__).parent
_PLACES = (
    (re.compile(r"(?<![\w.])/(?:[\w.+-]+/)+(?=[\w.+-]+\.py\b)"), ""),  # folders of files of Python
    (re.compile(re.escape(tempfile.gettempdir()) + r"/[\w/]+/"), "TMP/"),
    (re.compile(r"(\.py):\d+"), r"\1:N"),
    (re.compile(r"(ONNX Runtime|onnxruntime|torch) \d+\.\d+[\w.+]*"), r"\1 X.Y"),
    (re.compile(r"0x[0-9a-f]{6,}"), "0x..."),
    (re.compile(r"\([A-Z]{3}\)"), "(XYZ)"),  # names of graph builders
    (re.compile(r"\d\d:\d\d:\d\d\.\d+"), "TIME"),
    (re.compile(r"\d+\.\d+ s\b"), "0.0 s"),
)


def error_of(name: str) -> Exception:
    """What a case raises, taken out of what torch wraps it in."""
    torch.compiler.reset()
    try:
        CASES[name]()
    except Exception as error:  # torch's own too, where a case leads there
        return getattr(error, "inner_exception", None) or error
    raise AssertionError(f"{name} raises nothing")


def text_of(error: Exception) -> str:
    """Class and message, without what differs from machine to machine."""
    text = str(error) if isinstance(error, ShellError) else f"{type(error).__name__}: {error}"
    for pattern, word in _PLACES:
        text = pattern.sub(word, text)
    return "\n".join(line.rstrip() for line in text.splitlines()) + "\n"


def path_of(name: str) -> Path:
    """The golden file of a case."""
    return HERE / f"{name}.txt"


def main() -> None:
    """Rewrite every golden file."""
    for path in HERE.glob("*.txt"):
        path.unlink()
    for name in CASES:
        path_of(name).write_text(text_of(error_of(name)), encoding="utf-8")


if __name__ == "__main__":
    main()
