"""What tests of the shell share: a command that is refused."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ortable.cli.main import main

Refused = Callable[..., str]


@pytest.fixture
def refused(capsys: pytest.CaptureFixture[str]) -> Refused:
    """A function that runs a command which ends with status 2, and returns what is said."""

    def run(*words: str) -> str:
        assert main(list(words)) == 2
        told = capsys.readouterr().err
        assert told.startswith("error: ") and "Traceback" not in told
        return told

    return run
