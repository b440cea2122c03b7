"""Small files of the faults of runtimes: their results, and what a run of them finds."""

from __future__ import annotations

import numpy as np
import pytest

from .faults import (
    compare_results,
    evaluate_file,
    find_problem,
    load_faults,
    load_limits,
    read_reasons,
)
from .runtimes import RuntimeFailure

FAULTS = load_faults()


def test_every_reason_has_files_or_says_why_none_can_be():
    shown, limits = {(fault.runtime, fault.reason) for fault in FAULTS}, set(load_limits())
    assert not shown & limits
    assert shown | limits == set(read_reasons())


def test_a_file_that_fails_states_the_message():
    wrong = [str(fault) for fault in FAULTS if (fault.outcome == "failing") != bool(fault.message)]
    assert not wrong


@pytest.mark.parametrize("fault", FAULTS, ids=str)
def test_stated_results_are_those_that_onnx_defines(fault):
    compare_results(evaluate_file(fault), fault)


def test_a_fault_that_is_gone_or_another_is_found():
    def fail(model, inputs):
        raise RuntimeFailure("no kernel")

    failing = next(fault for fault in FAULTS if fault.outcome == "failing")
    different = next(fault for fault in FAULTS if fault.outcome == "different")
    for fault in (failing, different):
        results = list(fault.results.values())
        assert "is gone" in find_problem(fault, lambda model, inputs, r=results: r)
        assert "no kernel" in find_problem(fault, fail)
    wrong = [np.zeros_like(array) for array in different.results.values()]
    assert find_problem(different, lambda model, inputs: wrong) is None
