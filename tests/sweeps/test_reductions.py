"""Every reduction of the table at every size and mean: its error is at most four times eager's."""

from __future__ import annotations

import pytest

from tests.conformance.reductions import REDUCTIONS, SIZES, Reduction, measure


@pytest.mark.alternates(parts=2)
@pytest.mark.parametrize("reduction", REDUCTIONS, ids=lambda each: each.name)
def test_errors_are_those_of_eager(reduction: Reduction) -> None:
    found = [m for size in SIZES if size <= reduction.most for m in measure(reduction, size)]
    assert found
    assert not [str(each) for each in found if each.is_fault]
