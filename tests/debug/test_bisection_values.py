"""Descriptions of the differences between the results of two runs."""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch

from ortable.debug.comparing.call_effects import collect_leaves, describe_difference
from ortable.exporter.reporting.numeric_diff import ToleranceOverride as Tolerances

ONE = torch.ones(2, 3)


@pytest.mark.parametrize(
    ("expected", "actual", "message"),
    [
        (ONE, ONE + 1e-7, None),
        (ONE, ONE.double(), "dtype float64 in place of float32"),
        (ONE, ONE[:1], r"shape \[1, 3\] in place of \[2, 3\]"),
        (ONE, ONE + torch.eye(2, 3), r"2 of 6 values, most at \[0, 0\]: 2 in place of 1"),
        (torch.tensor(float("nan")), torch.tensor(float("nan")), None),
        (torch.tensor(float("nan")), torch.tensor(1.0), "1 of 1 values, most: 1 in place of nan"),
        (torch.tensor([3, 4]), torch.tensor([3, 5]), r"1 of 2 values, most at \[1\]: 5 in place"),
        (torch.tensor(2), 2, "int in place of Tensor"),
        (2, torch.tensor(2), "Tensor in place of int"),
        (2, 2.0, "float in place of int"),
        (2, 3, "3 in place of 2"),
        (True, False, "False in place of True"),
        ("a", "b", "'b' in place of 'a'"),
        (0.5, 0.5 + 1e-13, None),
        (0.5, 0.25, "1 of 1 values, most: 0.25 in place of 0.5"),
        (None, None, None),
    ],
)
def test_two_values(expected: Any, actual: Any, message: str | None) -> None:
    difference = describe_difference({"result": expected}, {"result": actual}, Tolerances())
    assert bool(difference) == (message is not None)
    assert message is None or re.match(f"result: {message}", difference)


def test_a_value_that_is_missing_and_a_tolerance_that_is_given() -> None:
    assert describe_difference({"a": 1}, {}, Tolerances()) == "a is missing"
    expected, actual = (
        collect_leaves("out", (ONE, {"k": ONE})),
        collect_leaves("out", (ONE, {"k": ONE + 0.1})),
    )
    assert describe_difference(expected, actual, Tolerances(atol=0.2)) == ""
    difference = describe_difference(expected, actual, Tolerances())
    assert difference.startswith("out[1]['k']: 6 of 6 values")
