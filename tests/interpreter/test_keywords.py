"""Keyword arguments of Python functions get the names of the schema."""

from __future__ import annotations

import pytest
import torch

from ortable.errors import UnsupportedCase
from ortable.interpreter import calls

HARDTANH = torch.ops.aten.hardtanh


@pytest.mark.parametrize(
    ("keywords", "expected"),
    [
        ({"inplace": False}, {}),
        ({"training": True}, {"training": True}),  # becomes train where the schema has train
        ({"input": 1, "min_val": 2}, {"self": 1, "min_val": 2}),
        ({"nothing": False}, {"nothing": False}),
    ],
)
def test_only_what_says_nothing_is_left_out(
    keywords: dict[str, object], expected: dict[str, object]
) -> None:
    assert calls._rename_to_schema(keywords, HARDTANH) == expected


def test_a_call_that_writes_into_its_argument_is_refused() -> None:
    with pytest.raises(UnsupportedCase, match=r"inplace=True writes .* give example inputs"):
        calls._rename_to_schema({"inplace": True}, HARDTANH)


def test_a_flag_has_the_name_of_the_schema() -> None:
    names = calls._rename_to_schema({"training": False, "p": 0.5}, torch.ops.aten.dropout)
    assert names == {"train": False, "p": 0.5}
