"""Inference rules against what ONNX Runtime (or ONNX's reference evaluator) really returns: dtype,
shape, content, with static sizes and with every size replaced by a symbol."""

from __future__ import annotations

import itertools
from functools import cache
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from ortable import dims, dtypes
from ortable.inference.value_info import ValueInfo
from ortable_generated.onnx.dispatch import INFER

from .nodes import CASES, Case

_IDS = [f"{n}-{case}" for n, case in enumerate(CASES)]


def _model(case: Case) -> onnx.ModelProto:
    names = [f"x{n}" if array is not None else "" for n, array in enumerate(case.inputs)]
    attrs = {
        k: numpy_helper.from_array(v) if isinstance(v, np.ndarray) else v
        for k, v in case.attrs.items()
    }
    node = helper.make_node(
        case.op, names, [f"y{n}" for n in range(case.outputs)], domain=case.domain, **attrs
    )
    given = [
        helper.make_tensor_value_info(n, dtypes.from_numpy(a.dtype), a.shape)
        for n, a in zip(names, case.inputs, strict=True)
        if a is not None
    ]
    results = [helper.make_empty_tensor_value_info(n) for n in node.output]
    graph = helper.make_graph([node], "node", given, results)
    opsets = [helper.make_opsetid("", case.opset)] + (
        [helper.make_opsetid(case.domain, 1)] if case.domain else []
    )
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


@cache
def _results(index: int) -> list[np.ndarray]:
    case = CASES[index]
    model = _model(case)
    feeds = {f"x{n}": a for n, a in enumerate(case.inputs) if a is not None}
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    try:
        session = onnxruntime.InferenceSession(
            model.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
        return session.run(None, feeds)
    except Exception:  # no kernel: ONNX's own evaluator
        return [np.asarray(r) for r in ReferenceEvaluator(model).run(None, feeds)]


def _infer(case: Case, infos: list[ValueInfo | None]) -> tuple[tuple[Any, Any, Any], ...]:
    key = f"{case.domain}::{case.op}" if case.domain else case.op
    while infos and infos[-1] is None:
        infos = infos[:-1]
    return INFER[key](infos, case.attrs, case.outputs, case.opset)


def _content(array: np.ndarray) -> Any:
    if array.dtype not in (np.int32, np.int64) or array.ndim > 1:
        return None
    return tuple(array.tolist()) if array.ndim else int(array)


def _static(array: np.ndarray | None) -> ValueInfo | None:
    if array is None:
        return None
    return ValueInfo(
        "x", dtypes.from_numpy(array.dtype), array.shape, value=_content(array), constant=array
    )


@pytest.mark.parametrize("index", range(len(CASES)), ids=_IDS)
def test_static_shape_dtype_and_content_are_those_of_the_runtime(index: int) -> None:
    case, expected = CASES[index], _results(index)
    found = _infer(case, [_static(a) for a in case.inputs])
    assert len(found) == case.outputs
    for (dtype, shape, value), array in zip(found, expected, strict=True):
        assert dtype == dtypes.from_numpy(array.dtype)
        assert shape == array.shape or (shape is None and not case.known)
        assert value is None or value == _content(array)


class Symbols:
    """Replaces sizes by symbols and remembers their values. ``shared``: equal sizes get one
    symbol."""

    def __init__(self, shared: bool, contents: bool, minimum: int) -> None:
        self.shared, self.contents, self.minimum = shared, contents, minimum
        self.values: dict[str, int] = {}

    def dim(self, size: int, name: str) -> dims.Dim:
        if size < max(2, self.minimum):
            return size
        name = f"d{size}" if self.shared else name
        self.values[name] = size
        return dims.symbol(name, self.minimum)

    def info(self, array: np.ndarray | None, index: int) -> ValueInfo | None:
        if array is None:
            return None
        value = _content(array)
        if self.contents and isinstance(value, tuple):
            value = tuple(
                self.dim(v, f"v{index}_{k}") if 1 < v < 100 else v for k, v in enumerate(value)
            )
        elif self.contents and value is not None and 1 < value < 100:
            value = self.dim(value, f"v{index}")
        shape = tuple(self.dim(size, f"s{index}_{k}") for k, size in enumerate(array.shape))
        if isinstance(value, tuple):
            shape = (len(value),)
        elif array.ndim == 1 and array.dtype == np.float32 and array.size <= 4:
            shape = array.shape  # scales: a vector as long as the rank
        return ValueInfo("x", dtypes.from_numpy(array.dtype), shape, value=value, constant=array)

    def evaluate(self, item: Any) -> Any:
        if isinstance(item, tuple):
            return tuple(dims.evaluate(d, self.values) for d in item)
        return item if item is None else dims.evaluate(item, self.values)


@pytest.mark.parametrize("index", range(len(CASES)), ids=_IDS)
def test_symbolic_result_has_the_real_sizes(index: int) -> None:
    """Equal sizes are one symbol or several, contents known or not, sizes 0 and 1 possible or
    not."""
    case, expected = CASES[index], _results(index)
    for mode in itertools.product((True, False), (True, False), (0, 2)):
        symbols = Symbols(*mode)
        found = _infer(case, [symbols.info(a, n) for n, a in enumerate(case.inputs)])
        for (dtype, shape, value), array in zip(found, expected, strict=True):
            assert dtype == dtypes.from_numpy(array.dtype), mode
            assert shape is None or symbols.evaluate(shape) == array.shape, mode
            assert value is None or symbols.evaluate(value) == _content(array), mode


@pytest.mark.parametrize("index", range(len(CASES)), ids=_IDS)
def test_nothing_known_is_accepted(index: int) -> None:
    case, expected = CASES[index], _results(index)
    infos = [a if a is None else ValueInfo("x", dtypes.from_numpy(a.dtype)) for a in case.inputs]
    for (dtype, shape, value), array in zip(_infer(case, infos), expected, strict=True):
        assert dtype == dtypes.from_numpy(array.dtype)
        assert shape is None or shape == array.shape
        assert value is None or value == _content(array)
