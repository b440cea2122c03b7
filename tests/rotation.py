"""Select the samples of bounded runs by a number that depends on the tested code."""

from __future__ import annotations

import datetime
import subprocess
import zlib
from pathlib import Path

ROOT = Path(__file__).parents[1]
# Expectations and documents are omitted: a commit that only corrects them selects the same samples.
TESTED = ("specs", "codegen", "generated", "runtime")


def rotation_seed() -> int:
    """Return a hash below 2**32 of the committed specs, generator and runtime.

    Without git the number is today's date.
    """
    names = [f"HEAD:{folder}" for folder in TESTED]
    try:
        result = subprocess.run(
            ["git", "rev-parse", *names], cwd=ROOT, capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        return datetime.date.today().toordinal()
    return zlib.crc32(result.stdout.encode())


def is_of_part(text: str, number: int, parts: int) -> bool:
    """Return whether a named item, such as a test file, is in the part that ``number`` selects."""
    return (zlib.crc32(text.encode()) - number) % parts == 0
