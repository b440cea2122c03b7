"""Keyword arguments of Python functions under the names of the schema."""

from __future__ import annotations

import pytest
import torch

from ortable.interpreter import calls

RELU = torch.ops.aten.hardtanh


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ({"inplace": False}, {}),
        ({"inplace": True}, {"inplace": True}),  # is refused: it would write into the argument
        ({"input": 1, "min_val": 2}, {"self": 1, "min_val": 2}),
        ({"nothing": False}, {"nothing": False}),
    ],
)
def test_only_what_says_nothing_is_left_out(
    given: dict[str, object], found: dict[str, object]
) -> None:
    assert calls._schema_names(given, RELU) == found
