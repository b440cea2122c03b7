"""Runs a model as it is written, in ONNX Runtime or node by node in numpy, and compares what comes
out. In come a model and arrays, lists of arrays or None, out come the same; called by `node_tests`.
"""

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

# What numpy has no dtype for crosses the border of ONNX Runtime as float32, which holds all of it.
_PLAIN = frozenset(
    {
        TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16, TensorProto.BOOL,
        TensorProto.STRING, TensorProto.INT8, TensorProto.INT16, TensorProto.INT32,
        TensorProto.INT64, TensorProto.UINT8, TensorProto.UINT16, TensorProto.UINT32,
        TensorProto.UINT64,
    }
)  # fmt: skip

# One unit in the last place, and what another order of the same operations may cost.
ROUNDING = {"float64": 1e-12, "float32": 2e-6, "float16": 2e-3, "bfloat16": 2e-2}


class Different(AssertionError):
    """Two runs gave different results."""


@dataclass(frozen=True)
class Allowed:
    """How far two floats may be apart, see `compare`."""

    rtol: float | None
    atol: float
    slack: float


class OrtRunner:
    """A model in ONNX Runtime, with its graph optimizers off; raises what the session raises."""

    def __init__(self, model: onnx.ModelProto) -> None:
        self.narrow: dict[str, int] = {}
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        options.inter_op_num_threads = 1
        options.log_severity_level = 4
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        self.session = onnxruntime.InferenceSession(
            self._widened(model).SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
        self.names = {value.name for value in self.session.get_inputs()}

    def __call__(self, feeds: Mapping[str, Any]) -> list[Any]:
        given = {
            name: value.astype(np.float32) if name in self.narrow else value
            for name, value in feeds.items()
            if name in self.names
        }
        names = [value.name for value in self.session.get_outputs()]
        found = self.session.run(names, given)
        return [
            value.astype(dtypes.to_numpy(self.narrow[name])) if name in self.narrow else value
            for name, value in zip(names, found, strict=True)
        ]

    def _widened(self, model: onnx.ModelProto) -> onnx.ModelProto:
        """The model with a Cast at each input and output of a type that numpy lacks."""
        graph = model.graph
        fed = [value for value in graph.input if _narrow(value)]
        fetched = [value for value in graph.output if _narrow(value)]
        if not fed and not fetched:
            return model
        made = onnx.ModelProto()
        made.CopyFrom(model)
        graph = made.graph
        before, after = [], []
        renamed = {}
        for value in graph.input:
            if _narrow(value):
                elem_type = self.narrow[value.name] = value.type.tensor_type.elem_type
                renamed[value.name] = f"{value.name}.narrow"
                before.append(_cast(value.name, renamed[value.name], elem_type))
                value.type.tensor_type.elem_type = TensorProto.FLOAT
        _rename_uses(graph, renamed)
        for value in graph.output:
            if _narrow(value):
                self.narrow[value.name] = value.type.tensor_type.elem_type
                source = renamed.get(value.name, f"{value.name}.narrow")
                after.append(_cast(source, value.name, TensorProto.FLOAT))
                value.type.tensor_type.elem_type = TensorProto.FLOAT
                for node in graph.node:
                    _rename_all(node.output, {value.name: source})
                _rename_uses(graph, {value.name: source})
        nodes = [*before, *graph.node, *after]
        del graph.node[:]
        graph.node.extend(nodes)
        del graph.value_info[:]
        return made


def _narrow(value: onnx.ValueInfoProto) -> bool:
    tensor = value.type.tensor_type
    return value.type.HasField("tensor_type") and tensor.elem_type not in _PLAIN


def _cast(source: str, result: str, to: int) -> onnx.NodeProto:
    return helper.make_node("Cast", [source], [result], to=to)


def _rename_uses(graph: onnx.GraphProto, names: Mapping[str, str]) -> None:
    for node in graph.node:
        _rename_all(node.input, names)
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                _rename_uses(attribute.g, names)


def _rename_all(names: Any, renamed: Mapping[str, str]) -> None:
    for place, name in enumerate(names):
        names[place] = renamed.get(name, name)


class ReferenceRunner:
    """A model in onnx's reference evaluator."""

    def __init__(self, model: onnx.ModelProto) -> None:
        self.evaluator = ExtendedReferenceEvaluator(model)
        self.names = {value.name for value in model.graph.input}

    def __call__(self, feeds: Mapping[str, Any]) -> list[Any]:
        given = {name: value for name, value in feeds.items() if name in self.names}
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            return list(self.evaluator.run(None, given))


# -- comparing


def compare(
    expected: Sequence[Any],
    found: Sequence[Any],
    rtol: float | None = None,
    atol: float = 0.0,
    slack: float = 1.0,
) -> None:
    """Raise Different unless number, kinds, dtypes, shapes and values are equal.

    ``rtol``: None allows ``slack`` times what another order of the same operations may cost.
    """
    if len(expected) != len(found):
        raise Different(f"{len(found)} outputs instead of {len(expected)}")
    for place, (wanted, got) in enumerate(zip(expected, found, strict=True)):
        _compare_value(f"output {place}", wanted, got, Allowed(rtol, atol, slack))


def _compare_value(what: str, wanted: Any, got: Any, allowed: Allowed) -> None:
    if wanted is None or got is None:
        if wanted is not got:
            raise Different(f"{what}: {_kind(got)} instead of {_kind(wanted)}")
        return
    if isinstance(wanted, list) or isinstance(got, list):
        if not (isinstance(wanted, list) and isinstance(got, list)) or len(wanted) != len(got):
            raise Different(f"{what}: {_kind(got)} instead of {_kind(wanted)}")
        for place, (one, other) in enumerate(zip(wanted, got, strict=True)):
            _compare_value(f"{what}[{place}]", one, other, allowed)
        return
    wanted, got = np.asarray(wanted), np.asarray(got)
    if _dtype(wanted) != _dtype(got):
        raise Different(f"{what}: dtype {_dtype(got)} instead of {_dtype(wanted)}")
    if wanted.shape != got.shape:
        raise Different(f"{what}: shape {got.shape} instead of {wanted.shape}")
    wrong = ~_close(wanted, got, allowed)
    if wrong.any():
        first = int(np.argmax(wrong))
        raise Different(
            f"{what}: {got.reshape(-1)[first]} instead of {wanted.reshape(-1)[first]} "
            f"({int(wrong.sum())} of {wrong.size} differ)"
        )


def _kind(value: Any) -> str:
    if isinstance(value, list):
        return f"a list of {len(value)}"
    return "nothing" if value is None else "a tensor"


def _dtype(array: np.ndarray) -> str:
    return "str" if array.dtype.kind in "OUST" else array.dtype.name


def _close(wanted: np.ndarray, got: np.ndarray, allowed: Allowed) -> np.ndarray:
    name = wanted.dtype.name
    if _dtype(wanted) == "str":
        return np.asarray(wanted.astype(str) == got.astype(str)).reshape(-1)
    if wanted.dtype.kind == "c":
        wanted, got = (each.view(each.real.dtype).reshape(-1) for each in (wanted, got))
        name = wanted.dtype.name
    if wanted.dtype.kind in "biu":
        return np.asarray(wanted == got).reshape(-1)
    rtol, atol = allowed.rtol, allowed.atol
    relative = ROUNDING.get(name, 0.0) * allowed.slack if rtol is None else rtol
    left, right = wanted.astype(np.float64), got.astype(np.float64)
    with np.errstate(all="ignore"):
        scale = np.maximum(np.abs(left), np.abs(right))
        if rtol is None and left.size and np.isfinite(left).any():
            # sums of terms of both signs: rounding is of the size of the terms
            scale = np.maximum(scale, np.abs(left[np.isfinite(left)]).max() * 0.1)
        near = np.abs(left - right) <= relative * scale + atol
        same = (left == right) | (np.isnan(left) & np.isnan(right))
    return np.asarray(near & np.isfinite(left) & np.isfinite(right) | same).reshape(-1)
