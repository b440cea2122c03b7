"""Eager refuses the sample of every row with its error, and a difference from eager is found."""

from __future__ import annotations

import pytest
import torch

from .judge import Verdict, expected, unexpected
from .rows import Outcome, Row, all_rows, outcome_of, run_row


@pytest.mark.parametrize("row", all_rows(), ids=lambda row: row.name)
def test_eager_refuses_the_sample_of_a_row(row: Row) -> None:
    assert run_row(row, None).error == row.check.raises


def test_numbers_may_differ_and_words_may_not() -> None:
    first = Outcome("IndexError", "index -1 is out of bounds")
    assert first.is_like(Outcome("IndexError", "index 7 is out of bounds"))
    assert not first.is_like(Outcome("IndexError", "index 7 is out of range"))
    assert not first.is_like(Outcome("RuntimeError", "index -1 is out of bounds"))


def test_the_first_line_of_an_error_counts() -> None:
    assert outcome_of(torch.ones, 2) == Outcome()
    outcome = outcome_of(lambda: torch.ones(2)[torch.tensor([3])])
    assert outcome == Outcome("IndexError", "index 3 is out of bounds for dimension 0 with size 2")


def test_what_nothing_explains_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    eager, no_error = Outcome("IndexError", "out of range"), Outcome()
    missing_error = Verdict("row aten::relu/1", "none", eager, no_error)
    assert len(unexpected([missing_error], is_complete=False)) == 1
    name = next(iter(expected()))
    assert any(name in line for line in unexpected([], is_complete=True))
