"""Inferred dtypes, shapes and contents agree with ONNX Runtime or ONNX's evaluator.

Sizes are static or symbols. `test_knowledge.py` tests that the rules infer enough.
"""

from __future__ import annotations

import pytest

from ortable.inference.shape import ValueInfo

from .answers import MODES, Symbols, content, dtype_of, infer, run_case, shape_of, to_info
from .nodes import CASES

_IDS = [f"{n}-{case}" for n, case in enumerate(CASES)]


@pytest.mark.parametrize("index", range(len(CASES)), ids=_IDS)
def test_static_shape_dtype_and_content_are_those_of_the_runtime(index: int) -> None:
    case, expected = CASES[index], run_case(index)
    inferred = infer(case, [to_info(a) for a in case.inputs])
    assert len(inferred) == case.outputs
    for (dtype, shape, value), actual in zip(inferred, expected, strict=True):
        assert dtype is None or dtype == dtype_of(actual)
        assert shape is None or shape == shape_of(actual)
        assert value is None or value == content(actual)


@pytest.mark.parametrize("index", range(len(CASES)), ids=_IDS)
def test_symbolic_result_has_the_real_sizes(index: int) -> None:
    """Vary shared symbols, known contents, and the minimum of symbols."""
    case, expected = CASES[index], run_case(index)
    for name, mode in MODES.items():
        symbols = Symbols(*mode)
        inferred = infer(case, [symbols.info(a, n) for n, a in enumerate(case.inputs)])
        for (dtype, shape, value), actual in zip(inferred, expected, strict=True):
            assert dtype is None or dtype == dtype_of(actual), name
            assert shape is None or symbols.evaluate(shape) == shape_of(actual), name
            assert value is None or symbols.evaluate(value) == content(actual), name


@pytest.mark.parametrize("index", range(len(CASES)), ids=_IDS)
def test_nothing_known_is_accepted(index: int) -> None:
    case, expected = CASES[index], run_case(index)
    infos = [a if a is None else ValueInfo("x", dtype_of(a)) for a in case.inputs]
    for (dtype, shape, value), actual in zip(infer(case, infos), expected, strict=True):
        assert dtype is None or dtype == dtype_of(actual)
        assert shape is None or shape == shape_of(actual)
        assert value is None or value == content(actual)
