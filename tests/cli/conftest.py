"""Fixtures of the tests of the shell command."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ortable.cli.main import main

GetError = Callable[..., str]


@pytest.fixture
def get_error(capsys: pytest.CaptureFixture[str]) -> GetError:
    """Return a function that runs a command, checks for status 2, and returns the error message."""

    def run(*arguments: str) -> str:
        assert main(list(arguments)) == 2
        message = capsys.readouterr().err
        assert message.startswith("error: ") and "Traceback" not in message
        return message

    return run
