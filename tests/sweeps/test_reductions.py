"""The error of each reduction, at every size and mean, is at most four times eager's."""

from __future__ import annotations

import pytest

from tests.conformance.reductions import REDUCTIONS, SIZES, Reduction, measure


@pytest.mark.alternates(parts=2)
@pytest.mark.parametrize("reduction", REDUCTIONS, ids=lambda r: r.name)
def test_errors_are_those_of_eager(reduction: Reduction) -> None:
    measurements = [m for size in SIZES if size <= reduction.most for m in measure(reduction, size)]
    assert measurements
    assert not [str(measurement) for measurement in measurements if measurement.is_fault]
