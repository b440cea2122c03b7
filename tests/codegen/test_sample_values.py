"""Values of samples are of their dtype."""

from __future__ import annotations

import numpy as np
import pytest

from ortablegen.language.samples import ABBREVIATIONS, SampleProblem, tensor_sample

_BOUNDS = {
    short: (0, 1) if dtype == "bool" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
    for short, dtype in ABBREVIATIONS.items()
    if short[0] in "iub" and dtype != "bfloat16"
}


@pytest.mark.parametrize("dtype", ABBREVIATIONS)
def test_a_value_of_another_dtype_is_refused(dtype: str) -> None:
    lowest, highest = _BOUNDS.get(dtype, (-(2**70), 2**70))
    valid = [lowest, highest, *([] if dtype in _BOUNDS else ["0.5"])]
    refused = ["'a'", "None", *([] if dtype[0] == "c" else ["1j"])]
    refused += [lowest - 1, highest + 1, "0.5", "nan"] if dtype in _BOUNDS else []
    for value in valid:
        assert tensor_sample(f"{dtype}[1] = [{value}]") is not None
    for value in refused:
        with pytest.raises(SampleProblem, match=f"is not a {ABBREVIATIONS[dtype]}|cannot read"):
            tensor_sample(f"{dtype}[1] = [{value}]")
