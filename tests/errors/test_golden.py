"""The longest error messages equal their golden texts and fit on one screen."""

from __future__ import annotations

import math

import pytest

from ortable.errors import OrtableError

from . import golden
from .cases import CASES, ShellError

MAX_LINES, COLUMNS = 15, 120


@pytest.fixture(params=CASES)
def name(request: pytest.FixtureRequest) -> str:
    return request.param


def test_a_message_is_its_golden_text_and_short(name: str) -> None:
    error = golden.error_of(name)
    assert isinstance(error, (OrtableError, ShellError))
    text = golden.text_of(error)
    assert text == golden.read_table()[name]
    lines = text.splitlines()
    assert len(lines) <= MAX_LINES
    rows = sum(max(math.ceil(len(line) / COLUMNS), 1) for line in lines)
    assert rows <= MAX_LINES + 3  # on a terminal of 120 columns
    assert len(lines[0]) <= 3 * COLUMNS and all(len(line) <= 2.5 * COLUMNS for line in lines[1:])


def test_every_golden_text_has_a_case() -> None:
    assert sorted(golden.read_table()) == sorted(CASES)


def test_what_stands_behind_bert_is_one_screen_and_everything_is_kept(tmp_path) -> None:
    error = golden.error_of("to_onnx_missing_operator_behind_bert")
    assert isinstance(error, OrtableError)
    assert len(str(error)) < 1600 and len(error.graph_text) > 20_000
    assert error.graph_text in error.full_text() and error.details in error.full_text()


def test_advice_names_only_what_the_door_takes(name: str) -> None:
    text = golden.read_table()[name]
    unavailable = {
        "compile": ("dispatcher", "ExportOptions", "to_onnx", "--"),
        "to": ('"fallback": "eager"', " --"),
        "shell": ("dispatcher", "ExportOptions", "options=", "to_onnx(", "error."),
        "load": ("dispatcher", "ExportOptions"),
    }[name.partition("_")[0]]
    assert not [word for word in unavailable if word in text]
