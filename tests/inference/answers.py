"""Results of an inference rule for a case, and those of ONNX Runtime or ONNX's evaluator."""

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

# symbolic modes: whether equal sizes share a symbol, whether contents are symbols too, and the
# minimum of a symbol
MODES: Mapping[str, tuple[bool, bool, int]] = {
    " ".join(filter(None, words)): (shared == "shared", bool(contents), 2 if minimum else 0)
    for words in itertools.product(("shared", "own"), ("", "contents"), ("", "from 2"))
    for shared, contents, minimum in [words]
}


def key_of(case: Case) -> str:
    return f"{case.domain}::{case.op}" if case.domain else case.op


def make_model(case: Case) -> onnx.ModelProto:
    names = [f"x{n}" if array is not None else "" for n, array in enumerate(case.inputs)]
    attrs = {
        k: numpy_helper.from_array(v) if isinstance(v, np.ndarray) else v
        for k, v in case.attrs.items()
    }
    node = helper.make_node(
        case.op, names, [f"y{n}" for n in range(case.outputs)], domain=case.domain, **attrs
    )
    inputs = [
        _make_value_info(name, value)
        for name, value in zip(names, case.inputs, strict=True)
        if value is not None
    ]
    outputs = [helper.make_empty_tensor_value_info(n) for n in node.output]
    graph = helper.make_graph([node], "node", inputs, outputs)
    opsets = [helper.make_opsetid("", case.opset)] + (
        [helper.make_opsetid(case.domain, 1)] if case.domain else []
    )
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def _make_value_info(name: str, value: Any) -> onnx.ValueInfoProto:
    if isinstance(value, list):
        dtype = dtypes.from_numpy(value[0].dtype)
        return helper.make_tensor_sequence_value_info(name, dtype, None)
    return helper.make_tensor_value_info(name, _dtype(value), value.shape)


def _dtype(array: np.ndarray) -> int:
    return dtypes.string if array.dtype.kind in "OUST" else dtypes.from_numpy(array.dtype)


@cache
def run_case(index: int) -> list[Any]:
    """Return the actual results of a case: arrays, and lists of arrays."""
    case = CASES[index]
    model = make_model(case)
    feeds = {f"x{n}": array for n, array in enumerate(case.inputs) if array is not None}
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    try:
        session = onnxruntime.InferenceSession(
            model.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
        return session.run(None, feeds)
    except Exception:  # ONNX Runtime has no kernel: use ONNX's evaluator
        outputs = ReferenceEvaluator(model).run(None, feeds)
        return [output if isinstance(output, list) else np.asarray(output) for output in outputs]


def infer(case: Case, infos: list[ValueInfo | None]) -> tuple[tuple[Any, Any, Any], ...]:
    """Return the inferred dtype, shape and content of each output."""
    while infos and infos[-1] is None:
        infos = infos[:-1]
    return INFER[key_of(case)](infos, case.attrs, case.outputs, case.opset)


def content(array: Any) -> Any:
    """Return the content that a rule may infer: the values of an integer scalar or vector."""
    if isinstance(array, list) or array.dtype not in (np.int32, np.int64) or array.ndim > 1:
        return None
    return tuple(array.tolist()) if array.ndim else int(array)


def dtype_of(value: Any) -> int | None:
    """Return the expected dtype, None for a sequence."""
    return None if isinstance(value, list) else _dtype(value)


def shape_of(value: Any) -> tuple[int, ...] | None:
    """Return the expected shape, None for a sequence."""
    return None if isinstance(value, list) else value.shape


def to_info(value: Any) -> ValueInfo | None:
    """Return complete information about an input."""
    if value is None or isinstance(value, list):
        return None if value is None else ValueInfo("x")
    return ValueInfo("x", _dtype(value), value.shape, value=content(value), constant=value)


class Symbols:
    """Replace sizes by symbols and record their values.

    `shared`: equal sizes get one symbol.
    """

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
            return to_info(array)
        value = content(array)
        if self.contents and isinstance(value, tuple):
            value = tuple(
                self.dim(number, f"v{index}_{k}") if 1 < number < 100 else number
                for k, number in enumerate(value)
            )
        elif self.contents and value is not None and 1 < value < 100:
            value = self.dim(value, f"v{index}")
        shape = tuple(self.dim(size, f"s{index}_{k}") for k, size in enumerate(array.shape))
        if isinstance(value, tuple):
            shape = (len(value),)
        elif array.ndim == 1 and array.dtype == np.float32 and array.size <= 4:
            shape = array.shape  # scales: the length is the rank, which is static
        return ValueInfo("x", _dtype(array), shape, value=value, constant=array)

    def evaluate(self, item: Any) -> Any:
        if isinstance(item, tuple):
            return tuple(dims.evaluate_dim(dim, self.values) for dim in item)
        return item if item is None else dims.evaluate_dim(item, self.values)
