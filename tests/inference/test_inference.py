"""Inference rules against what ONNX Runtime (or ONNX's reference evaluator) really returns: dtype,
shape, content, with static sizes and with every size replaced by a symbol. `test_knowledge.py` asks
besides that the rules know it."""

from __future__ import annotations

import pytest

from ortable.inference.shape import ValueInfo

from .answers import MODES, Symbols, content, dtype_of, infer, results, shape_of, static
from .nodes import CASES

_IDS = [f"{n}-{case}" for n, case in enumerate(CASES)]


@pytest.mark.parametrize("index", range(len(CASES)), ids=_IDS)
def test_static_shape_dtype_and_content_are_those_of_the_runtime(index: int) -> None:
    case, expected = CASES[index], results(index)
    found = infer(case, [static(a) for a in case.inputs])
    assert len(found) == case.outputs
    for (dtype, shape, value), real in zip(found, expected, strict=True):
        assert dtype is None or dtype == dtype_of(real)
        assert shape is None or shape == shape_of(real)
        assert value is None or value == content(real)


@pytest.mark.parametrize("index", range(len(CASES)), ids=_IDS)
def test_symbolic_result_has_the_real_sizes(index: int) -> None:
    """Equal sizes are one symbol or several, contents known or not, sizes 0 and 1 possible or
    not."""
    case, expected = CASES[index], results(index)
    for name, mode in MODES.items():
        symbols = Symbols(*mode)
        found = infer(case, [symbols.info(a, n) for n, a in enumerate(case.inputs)])
        for (dtype, shape, value), real in zip(found, expected, strict=True):
            assert dtype is None or dtype == dtype_of(real), name
            assert shape is None or symbols.evaluate(shape) == shape_of(real), name
            assert value is None or symbols.evaluate(value) == content(real), name


@pytest.mark.parametrize("index", range(len(CASES)), ids=_IDS)
def test_nothing_known_is_accepted(index: int) -> None:
    case, expected = CASES[index], results(index)
    infos = [a if a is None else ValueInfo("x", dtype_of(a)) for a in case.inputs]
    for (dtype, shape, value), real in zip(infer(case, infos), expected, strict=True):
        assert dtype is None or dtype == dtype_of(real)
        assert shape is None or shape == shape_of(real)
        assert value is None or value == content(real)
