"""What a rule of inference answers for a case, and what ONNX Runtime (or ONNX's own evaluator)
really returns. In comes a `Case`, or its number; the tests of this folder compare the two."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from ortable import dims, dtypes
from ortable.inference.shape import ValueInfo
from ortable_generated.onnx.dispatch import INFER

from .nodes import CASES, Case

# where sizes are symbols: whether equal ones share one, whether contents are symbols too, and the
# least size that a symbol may have
MODES: Mapping[str, tuple[bool, bool, int]] = {
    " ".join(filter(None, words)): (shared == "shared", bool(contents), 2 if least else 0)
    for words in itertools.product(("shared", "own"), ("", "contents"), ("", "from 2"))
    for shared, contents, least in [words]
}


def key_of(case: Case) -> str:
    """The name of the case's operator in the tables."""
    return f"{case.domain}::{case.op}" if case.domain else case.op


def model_of(case: Case) -> onnx.ModelProto:
    """The case as a model of one node."""
    names = [f"x{n}" if array is not None else "" for n, array in enumerate(case.inputs)]
    attrs = {
        k: numpy_helper.from_array(v) if isinstance(v, np.ndarray) else v
        for k, v in case.attrs.items()
    }
    node = helper.make_node(
        case.op, names, [f"y{n}" for n in range(case.outputs)], domain=case.domain, **attrs
    )
    given = [
        _declared(name, value)
        for name, value in zip(names, case.inputs, strict=True)
        if value is not None
    ]
    results = [helper.make_empty_tensor_value_info(n) for n in node.output]
    graph = helper.make_graph([node], "node", given, results)
    opsets = [helper.make_opsetid("", case.opset)] + (
        [helper.make_opsetid(case.domain, 1)] if case.domain else []
    )
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def _declared(name: str, value: Any) -> onnx.ValueInfoProto:
    if isinstance(value, list):
        dtype = dtypes.from_numpy(value[0].dtype)
        return helper.make_tensor_sequence_value_info(name, dtype, None)
    return helper.make_tensor_value_info(name, _dtype(value), value.shape)


def _dtype(array: np.ndarray) -> int:
    return dtypes.string if array.dtype.kind in "OUST" else dtypes.from_numpy(array.dtype)


@cache
def results(index: int) -> list[Any]:
    """What the case really gives: arrays, and lists of arrays."""
    case = CASES[index]
    model = model_of(case)
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
        found = ReferenceEvaluator(model).run(None, feeds)
        return [r if isinstance(r, list) else np.asarray(r) for r in found]


def infer(case: Case, infos: list[ValueInfo | None]) -> tuple[tuple[Any, Any, Any], ...]:
    """The rule's answer: dtype, shape and content of each output."""
    while infos and infos[-1] is None:
        infos = infos[:-1]
    return INFER[key_of(case)](infos, case.attrs, case.outputs, case.opset)


def content(array: Any) -> Any:
    """What a rule may know of a result besides its size: the numbers of a few ints."""
    if isinstance(array, list) or array.dtype not in (np.int32, np.int64) or array.ndim > 1:
        return None
    return tuple(array.tolist()) if array.ndim else int(array)


def dtype_of(value: Any) -> int | None:
    """The dtype that a rule should give: none for a sequence."""
    return None if isinstance(value, list) else _dtype(value)


def shape_of(value: Any) -> tuple[int, ...] | None:
    """The shape that a rule should give: none for a sequence."""
    return None if isinstance(value, list) else value.shape


def static(value: Any) -> ValueInfo | None:
    """All that is true of an input."""
    if value is None or isinstance(value, list):
        return None if value is None else ValueInfo("x")
    return ValueInfo("x", _dtype(value), value.shape, value=content(value), constant=value)


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
        return dims.make_symbol(name, self.minimum)

    def info(self, array: Any, index: int) -> ValueInfo | None:
        if array is None or isinstance(array, list):
            return static(array)
        value = content(array)
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
        return ValueInfo("x", _dtype(array), shape, value=value, constant=array)

    def evaluate(self, item: Any) -> Any:
        if isinstance(item, tuple):
            return tuple(dims.evaluate_dim(d, self.values) for d in item)
        return item if item is None else dims.evaluate_dim(item, self.values)
