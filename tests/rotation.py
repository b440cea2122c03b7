"""What bounded runs take of their samples: a number that follows from what is tested. Called by the
command lines and tests that rotate (conformance, suites, derived samples, fuzzing)."""

from __future__ import annotations

import datetime
import subprocess
import zlib
from pathlib import Path

ROOT = Path(__file__).parents[1]
# Expectations and documents are left out: a commit that only corrects these tries the same again.
TESTED = ("specs", "codegen", "generated", "runtime")


def turn() -> int:
    """A number below 2**32 of the specs, the code generator and the runtime as they are committed:
    another change of these gives another number. Without git it follows from the date."""
    names = [f"HEAD:{folder}" for folder in TESTED]
    try:
        told = subprocess.run(
            ["git", "rev-parse", *names], cwd=ROOT, capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        return datetime.date.today().toordinal()
    return zlib.crc32(told.stdout.encode())


def is_of_part(text: str, number: int, parts: int) -> bool:
    """Whether a test file, or whatever else has a name, is in the part that ``number`` chooses."""
    return (zlib.crc32(text.encode()) - number) % parts == 0
