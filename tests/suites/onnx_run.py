"""Run a model in ONNX Runtime or in the reference evaluator, and compare the results."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper

from ortable import dtypes
from ortable.debug.reference import ExtendedReferenceEvaluator

# Types that numpy has; others are passed to ONNX Runtime as float32, which represents them.
_NUMPY_TYPES = frozenset(
    {
        TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16, TensorProto.BOOL,
        TensorProto.STRING, TensorProto.INT8, TensorProto.INT16, TensorProto.INT32,
        TensorProto.INT64, TensorProto.UINT8, TensorProto.UINT16, TensorProto.UINT32,
        TensorProto.UINT64,
    }
)  # fmt: skip

# Relative rounding errors of another order of the same operations.
ROUNDING = {"float64": 1e-12, "float32": 2e-6, "float16": 2e-3, "bfloat16": 2e-2}


class Different(AssertionError):
    """The results of two runs differ."""


@dataclass(frozen=True)
class Tolerance:
    """The maximum difference of two floats, see `compare`."""

    rtol: float | None
    atol: float
    slack: float


class OrtRunner:
    """Runs a model in ONNX Runtime with graph optimizations disabled."""

    def __init__(self, model: onnx.ModelProto) -> None:
        self.narrow_types: dict[str, int] = {}
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        options.inter_op_num_threads = 1
        options.log_severity_level = 4
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        self.session = onnxruntime.InferenceSession(
            self._widen(model).SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
        self.names = {value.name for value in self.session.get_inputs()}

    def __call__(self, feeds: Mapping[str, Any]) -> list[Any]:
        inputs = {
            name: value.astype(np.float32) if name in self.narrow_types else value
            for name, value in feeds.items()
            if name in self.names
        }
        names = [value.name for value in self.session.get_outputs()]
        results = self.session.run(names, inputs)
        return [
            value.astype(dtypes.to_numpy(self.narrow_types[name]))
            if name in self.narrow_types
            else value
            for name, value in zip(names, results, strict=True)
        ]

    def _widen(self, model: onnx.ModelProto) -> onnx.ModelProto:
        """Return the model with a Cast at inputs and outputs of types that numpy lacks."""
        graph = model.graph
        narrow_inputs = [value for value in graph.input if _is_narrow(value)]
        narrow_outputs = [value for value in graph.output if _is_narrow(value)]
        if not narrow_inputs and not narrow_outputs:
            return model
        widened = onnx.ModelProto()
        widened.CopyFrom(model)
        graph = widened.graph
        input_casts, output_casts = [], []
        new_names = {}
        for value in graph.input:
            if _is_narrow(value):
                elem_type = self.narrow_types[value.name] = value.type.tensor_type.elem_type
                new_names[value.name] = f"{value.name}.narrow"
                input_casts.append(_cast(value.name, new_names[value.name], elem_type))
                value.type.tensor_type.elem_type = TensorProto.FLOAT
        _rename_uses(graph, new_names)
        for value in graph.output:
            if _is_narrow(value):
                self.narrow_types[value.name] = value.type.tensor_type.elem_type
                source = new_names.get(value.name, f"{value.name}.narrow")
                output_casts.append(_cast(source, value.name, TensorProto.FLOAT))
                value.type.tensor_type.elem_type = TensorProto.FLOAT
                for node in graph.node:
                    _rename_all(node.output, {value.name: source})
                _rename_uses(graph, {value.name: source})
        nodes = [*input_casts, *graph.node, *output_casts]
        del graph.node[:]
        graph.node.extend(nodes)
        del graph.value_info[:]
        return widened


def _is_narrow(value: onnx.ValueInfoProto) -> bool:
    tensor = value.type.tensor_type
    return value.type.HasField("tensor_type") and tensor.elem_type not in _NUMPY_TYPES


def _cast(source: str, result: str, to: int) -> onnx.NodeProto:
    return helper.make_node("Cast", [source], [result], to=to)


def _rename_uses(graph: onnx.GraphProto, names: Mapping[str, str]) -> None:
    for node in graph.node:
        _rename_all(node.input, names)
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                _rename_uses(attribute.g, names)


def _rename_all(names: Any, new_names: Mapping[str, str]) -> None:
    for index, name in enumerate(names):
        names[index] = new_names.get(name, name)


class ReferenceRunner:
    """Runs a model in onnx's reference evaluator."""

    def __init__(self, model: onnx.ModelProto) -> None:
        self.evaluator = ExtendedReferenceEvaluator(model)
        self.names = {value.name for value in model.graph.input}

    def __call__(self, feeds: Mapping[str, Any]) -> list[Any]:
        inputs = {name: value for name, value in feeds.items() if name in self.names}
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            return list(self.evaluator.run(None, inputs))


# -- comparison


def compare(
    expected: Sequence[Any],
    results: Sequence[Any],
    rtol: float | None = None,
    atol: float = 0.0,
    slack: float = 1.0,
) -> None:
    """Raise Different unless number, kinds, dtypes, shapes and values are equal.

    ``rtol``: None allows ``slack`` times the rounding error of another order of operations.
    """
    if len(expected) != len(results):
        raise Different(f"{len(results)} outputs instead of {len(expected)}")
    for index, (value, result) in enumerate(zip(expected, results, strict=True)):
        _compare_value(f"output {index}", value, result, Tolerance(rtol, atol, slack))


def _compare_value(name: str, expected: Any, result: Any, tolerance: Tolerance) -> None:
    if expected is None or result is None:
        if expected is not result:
            raise Different(f"{name}: {_kind(result)} instead of {_kind(expected)}")
        return
    if isinstance(expected, list) or isinstance(result, list):
        if not (isinstance(expected, list) and isinstance(result, list)) or len(expected) != len(
            result
        ):
            raise Different(f"{name}: {_kind(result)} instead of {_kind(expected)}")
        for index, (element, result_element) in enumerate(zip(expected, result, strict=True)):
            _compare_value(f"{name}[{index}]", element, result_element, tolerance)
        return
    expected, result = np.asarray(expected), np.asarray(result)
    if _dtype(expected) != _dtype(result):
        raise Different(f"{name}: dtype {_dtype(result)} instead of {_dtype(expected)}")
    if expected.shape != result.shape:
        raise Different(f"{name}: shape {result.shape} instead of {expected.shape}")
    wrong = ~_is_close(expected, result, tolerance)
    if wrong.any():
        first = int(np.argmax(wrong))
        raise Different(
            f"{name}: {result.reshape(-1)[first]} instead of {expected.reshape(-1)[first]} "
            f"({int(wrong.sum())} of {wrong.size} differ)"
        )


def _kind(value: Any) -> str:
    if isinstance(value, list):
        return f"a list of {len(value)}"
    return "nothing" if value is None else "a tensor"


def _dtype(array: np.ndarray) -> str:
    return "str" if array.dtype.kind in "OUST" else array.dtype.name


def _is_close(expected: np.ndarray, result: np.ndarray, tolerance: Tolerance) -> np.ndarray:
    name = expected.dtype.name
    if _dtype(expected) == "str":
        return np.asarray(expected.astype(str) == result.astype(str)).reshape(-1)
    if expected.dtype.kind == "c":
        expected, result = (x.view(x.real.dtype).reshape(-1) for x in (expected, result))
        name = expected.dtype.name
    if expected.dtype.kind in "biu":
        return np.asarray(expected == result).reshape(-1)
    rtol, atol = tolerance.rtol, tolerance.atol
    relative = ROUNDING.get(name, 0.0) * tolerance.slack if rtol is None else rtol
    left, right = expected.astype(np.float64), result.astype(np.float64)
    with np.errstate(all="ignore"):
        scale = np.maximum(np.abs(left), np.abs(right))
        if rtol is None and left.size and np.isfinite(left).any():
            # the rounding error of a sum depends on its largest term
            scale = np.maximum(scale, np.abs(left[np.isfinite(left)]).max() * 0.1)
        near = np.abs(left - right) <= relative * scale + atol
        same = (left == right) | (np.isnan(left) & np.isnan(right))
    return np.asarray(near & np.isfinite(left) & np.isfinite(right) | same).reshape(-1)
