"""How far a result is from eager's: what counts as a difference where numbers are not finite, and
where tolerances would hide one."""

from __future__ import annotations

import math

import pytest
import torch

from ortable.exporter.account.gaps import gap_between
from ortable.exporter.account.tolerances import EXACT, tolerance_of

INF, NAN = math.inf, math.nan


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16])
@pytest.mark.parametrize(
    ("expected", "got", "equal"),
    [
        (INF, INF, True),
        (-INF, -INF, True),
        (NAN, NAN, True),
        (0.0, -0.0, True),
        (INF, 1.0, False),
        (1.0, INF, False),
        (INF, -INF, False),
        (NAN, 1.0, False),
        (1.0, NAN, False),
        (INF, NAN, False),
    ],
)
def test_numbers_that_are_not_finite(
    dtype: torch.dtype, expected: float, got: float, equal: bool
) -> None:
    first, second = (torch.tensor([2.0, each], dtype=dtype) for each in (expected, got))
    found = gap_between(first, second, tolerance_of(dtype))
    assert (found is None) == equal
    if found is not None:
        assert found.largest == INF and found.what.startswith("1 of 2 values, most at [1]")


def test_integers_are_equal_or_not() -> None:
    big = torch.tensor([2**60])
    found = gap_between(big, big + 1, EXACT)
    assert found is not None and found.largest == 1
    assert gap_between(big, big.clone(), EXACT) is None


def test_another_shape_or_dtype_is_infinitely_far() -> None:
    one = torch.ones(2, 1)
    for other in (torch.ones(1, 2), torch.ones(2, 1, dtype=torch.float64)):
        found = gap_between(one, other, tolerance_of(one.dtype))
        assert found is not None and found.largest == INF
