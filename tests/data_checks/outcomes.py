"""What a call raises, so that it can be compared with what another one raises."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

_NUMBER = re.compile(r"-?\d+")


@dataclass(frozen=True)
class Outcome:
    """The class of the exception that a call raised, and the first line of its text; or ""."""

    error: str = ""
    text: str = ""

    def is_like(self, other: Outcome) -> bool:
        """Whether both raised the same class with the same words; numbers may differ, because torch
        names the first element out of range, and the backend the one furthest out."""
        return self.error == other.error and _words(self.text) == _words(other.text)


def outcome_of(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Outcome:
    """Calls a function, and says what it raised."""
    try:
        function(*args, **kwargs)
    except Exception as error:
        return Outcome(type(error).__name__, str(error).partition("\n")[0])
    return Outcome()


def _words(text: str) -> str:
    return _NUMBER.sub("#", text)
