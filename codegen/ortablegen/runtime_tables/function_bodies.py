"""Measure operators without a kernel, whose ONNX function body ONNX Runtime inlines.

`kernels.py` records the types that run, and whether half floats match float32.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ortable import dtypes
from ortablegen.language.narrowing import HALVES
from ortablegen.schemas.onnx import Formal, OnnxSchema, element_type

from .precision import node_session, run_node

# Element types that graphs from torch have; function bodies are measured for these.
MEASURED = (1, 2, 3, 4, 5, 6, 7, 9, 10, 11, 12, 13, 16)
# values of required attributes
_ATTRIBUTE_VALUES: dict[str, Any] = {
    "INT": 1,
    "FLOAT": 1.0,
    "STRING": "",
    "INTS": [1],
    "FLOATS": [1.0],
}
# Input rows: numbers of all magnitudes, and rows whose squares overflow float16.
_ROWS = (
    (0.0, -0.0, np.inf, -np.inf, np.nan, 6e4, -6e4, 1e3, -1e3, 6e-8, -6e-8),
    (100, -100, 20, -20, 12, -12, 9.5, -9.5, 5.1, -5.1, 3.3, -3.3, 0.7, -0.7, 0.1, -0.1, 1e-3),
    (1e3, 1e3, 1e3, 1e3),
    (300, 301, 302.5, 290),
)


def measure_bindings(schema: OnnxSchema, opset: int) -> list[tuple[dict[str, int], bool]]:
    """Return the input types with which a session of one node loads at this opset.

    Each comes with a flag: whether the result equals the float32 result rounded once. The flag is
    True for types that are not half floats.
    """
    if any(a.type.startswith("GRAPH") for a in schema.attributes):
        return []
    parameters = sorted({f.type for f in schema.inputs} & {name for name, _ in schema.type_params})
    choices = [sorted(schema.elements(name) & set(MEASURED)) for name in parameters]
    if not all(choices):
        return []
    measured = []
    for types in itertools.product(*choices):
        binding = dict(zip(parameters, types, strict=True))
        if _can_run(schema, binding, opset):
            measured.append((binding, _rounds_once(schema, binding, opset)))
    return measured


def _can_run(schema: OnnxSchema, binding: Mapping[str, int], opset: int) -> bool:
    """Whether sessions of one node load, both without and with all optional inputs."""
    if _make_session(schema, binding, _required_inputs(schema), opset) is None:
        return False
    return not any(f.optional for f in schema.inputs) or (
        _make_session(schema, binding, list(schema.inputs), opset) is not None
    )


def _required_inputs(schema: OnnxSchema) -> list[Formal]:
    return [f for f in schema.inputs if not f.optional]


def _rounds_once(schema: OnnxSchema, binding: Mapping[str, int], opset: int) -> bool:
    """Whether half floats give the float32 results rounded once; False if a row does not run."""
    if not set(binding.values()) & HALVES:
        return True
    wide_binding = {name: dtypes.float32 if t in HALVES else t for name, t in binding.items()}
    formals = _required_inputs(schema)
    sessions = [_make_session(schema, types, formals, opset) for types in (binding, wide_binding)]
    for row in _ROWS:
        results = [
            _run_row(session, schema, types, formals, row, binding)
            for session, types in zip(sessions, (binding, wide_binding), strict=True)
        ]
        if results[0] is None or results[1] is None:
            return False
        if dtypes.from_torch(results[0].dtype) not in HALVES:
            return True  # a comparison, or a cast to another type: nothing is rounded
        measured, rounded = results[0].double(), results[1].to(results[0].dtype).double()
        if not np.array_equal(measured.numpy(), rounded.numpy(), equal_nan=True):
            return False
    return True


def _run_row(
    session: Any,
    schema: OnnxSchema,
    types: Mapping[str, int],
    formals: Sequence[Formal],
    row: Sequence[float],
    binding: Mapping[str, int],
) -> Any:
    """Return the result for ``row`` after rounding it to the types of ``binding``, or None."""
    feeds = {}
    for formal in formals:
        with np.errstate(over="ignore", invalid="ignore"):
            values = np.array([row]).astype(
                dtypes.to_numpy(_input_element(schema, formal, binding))
            )
            values = values.astype(dtypes.to_numpy(_input_element(schema, formal, types)))
        feeds[formal.name] = values
    return run_node(session, feeds)


def _input_element(schema: OnnxSchema, formal: Formal, binding: Mapping[str, int]) -> int:
    return binding.get(formal.type) or element_type(schema.allowed(formal.type)[0]) or 0


def _make_session(
    schema: OnnxSchema, binding: Mapping[str, int], formals: Sequence[Formal], opset: int
) -> Any:
    """Make a session of one node; return None if it does not load."""
    from onnx import helper

    names = [f.name for f in formals]
    inputs = [
        helper.make_tensor_value_info(f.name, _input_element(schema, f, binding), None)
        for f in formals
    ]
    attributes = {a.name: _ATTRIBUTE_VALUES[a.type] for a in schema.attributes if a.required}
    node = helper.make_node(schema.op, names, ["out"], domain=schema.domain, **attributes)
    return node_session(node, inputs, opset)
