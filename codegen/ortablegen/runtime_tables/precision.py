"""Measure how exactly the kernels of the installed ONNX Runtime compute.

Sessions of one node run the probes of `probes.py`; results are compared with exact arithmetic.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from ortable import dtypes
from ortablegen.schemas.onnx import OnnxSchema

from .probes import NOT_COMPARED, PROBES, VARIANTS, Array, Maker, Probe, float_info, to_exact

PROVIDER = "CPUExecutionProvider"
# Deviations of a kernel from exact arithmetic, in the order of docs/language.md.
DEVIATIONS = (
    "wrong", "via double", "via float", "saturates", "drops NaN", "drops infinity", "overflows",
    "drops sign of 0", "loses digits",
)  # fmt: skip


def measure_deviations(
    schema: OnnxSchema, elem_type: int, opset: int
) -> dict[str, set[str]] | None:
    """Measure the operator's kernel for one type at one opset, by variant ("": plain operator).

    Return None if the operator has no probes, or no variant runs with this type.
    """
    dtype = dtypes.to_numpy(elem_type)
    by_variant: dict[str, set[str]] = {}
    for variant, maker in probe_makers(schema):
        deviations = _run_probes(schema, maker, dtype, opset)
        if deviations is not None:
            by_variant[variant] = deviations
    return by_variant or None


def probe_makers(schema: OnnxSchema) -> list[tuple[str, Maker]]:
    """Return the makers of an operator's probes by variant."""
    if schema.domain:
        return []
    plain_makers = [("", PROBES[schema.op])] if schema.op in PROBES else []
    return plain_makers + list(VARIANTS.get(schema.op, {}).items())


def _run_probes(
    schema: OnnxSchema, maker: Maker, dtype: np.dtype[Any], opset: int
) -> set[str] | None:
    deviations: set[str] = set()
    sessions: dict[object, Any] = {}
    has_run = False
    with np.errstate(all="ignore"):
        for probe in maker(dtype):
            key = _session_key(probe)
            if key not in sessions:
                sessions[key] = _make_session(schema, probe, opset)
            result = _run_probe(sessions[key], probe)
            if result is None:
                return None
            has_run = True
            deviations |= classify_result(probe, result)
    return deviations if has_run else None


def _session_key(probe: Probe) -> object:
    inputs = tuple(None if x is None else (x.dtype.name, x.ndim) for x in probe.inputs)
    return inputs, repr(sorted(probe.attributes.items()))


# -- running


def _make_session(schema: OnnxSchema, probe: Probe, opset: int) -> Any:
    from onnx import helper

    feeds = [(f"x{i}", x) for i, x in enumerate(probe.inputs) if x is not None]
    names = [f"x{i}" if x is not None else "" for i, x in enumerate(probe.inputs)]
    inputs = [
        helper.make_tensor_value_info(name, dtypes.from_numpy(x.dtype), [None] * x.ndim)
        for name, x in feeds
    ]
    outputs = [f"y{i}" for i in range(probe.outputs)]
    extra = {"num_outputs": 1} if schema.op == "Split" else {}
    node = helper.make_node(schema.op, names, outputs, **{**probe.attributes, **extra})
    return node_session(node, inputs, opset)


def node_session(node: Any, inputs: Sequence[Any], opset: int) -> Any:
    """Make a session that returns a node's first output; return None if it does not load."""
    import onnxruntime
    from onnx import helper

    # the session infers the type of the output
    results = [helper.make_empty_tensor_value_info(node.output[0])]
    graph = helper.make_graph([node], "probe", inputs, results)
    imports = [helper.make_opsetid(node.domain, opset)]
    model = helper.make_model(graph, opset_imports=imports, ir_version=10)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    try:
        return onnxruntime.InferenceSession(
            model.SerializeToString(), options, providers=[PROVIDER]
        )
    except Exception:  # the error classes of ONNX Runtime share no base
        return None


def run_node(session: Any, feeds: Mapping[str, Array]) -> Any:
    """Run a session of `node_session`, and return a torch tensor; None if the run fails."""
    import torch
    from onnxruntime import OrtValue

    values = {
        name: OrtValue.ortvalue_from_numpy_with_onnx_type(
            np.ascontiguousarray(x), dtypes.from_numpy(x.dtype)
        )
        for name, x in feeds.items()
    }
    try:
        (result,) = session.run_with_ort_values(None, values)
    except Exception:  # no shared base class, see node_session
        return None
    return torch.from_dlpack(result._ortvalue.to_dlpack())


def _run_probe(session: Any, probe: Probe) -> Array | None:
    import torch

    if session is None:
        return None
    feeds = {f"x{i}": x for i, x in enumerate(probe.inputs) if x is not None}
    tensor = run_node(session, feeds)
    if tensor is not None and tensor.dtype == torch.bfloat16:
        return tensor.view(torch.uint16).numpy().view(dtypes.to_numpy(dtypes.bfloat16))
    return None if tensor is None else tensor.numpy()


# -- classification


def classify_result(probe: Probe, result: Array) -> set[str]:
    """Return the deviations of a result, a subset of `DEVIATIONS`."""
    operands = [None if x is None else to_exact(x) for x in probe.inputs]
    expected = np.asarray(probe.oracle(*operands))
    if expected.size not in (1, result.size):
        return {"wrong"}  # the sizes differ
    expected = (
        np.broadcast_to(expected, result.shape)
        if expected.size == 1
        else expected.reshape(result.shape)
    )
    first_input = probe.inputs[0]
    assert first_input is not None
    # ints of another type than the first input are indices, or come from Where (it is a condition)
    if result.dtype.kind == "b" or (
        result.dtype != first_input.dtype and result.dtype.kind in "iu"
    ):
        return _classify_discrete(probe, result, expected)
    if result.dtype.kind in "iu":
        return _classify_ints(result, expected)
    return _classify_floats(result, expected)


def _classify_discrete(probe: Probe, result: Array, expected: Array) -> set[str]:
    """Classify booleans, indices and ints of Where, which have to be equal.

    A result is "drops NaN" if only rows with NaN are wrong.
    """
    if np.array_equal(result.astype(np.int64), expected.astype(np.int64)):
        return set()
    operand = probe.inputs[0]
    assert operand is not None
    if operand.dtype.kind not in "iub" and np.isnan(operand.astype(np.float64)).any():
        is_nan = np.isnan(operand.astype(np.float64))
        has_nan = is_nan.any(axis=int(probe.attributes["axis"])) if operand.ndim > 1 else is_nan
        if has_nan.shape == result.shape and np.array_equal(
            result[~has_nan].astype(np.int64), expected[~has_nan].astype(np.int64)
        ):
            return {"drops NaN"}
    return {"wrong"}


def _classify_ints(result: Array, expected: Array) -> set[str]:
    """Classify ints, which wrap around as in torch; a small error means a float computation."""
    low, high = int(np.iinfo(result.dtype).min), int(np.iinfo(result.dtype).max)
    deviations = set()
    for actual, exact in zip(
        result.ravel().tolist(), map(int, expected.ravel().tolist()), strict=True
    ):
        error = abs(actual - exact)
        if (actual - exact) % (high - low + 1) == 0:
            continue
        if not low <= exact <= high:
            deviations.add("saturates")
        elif error <= abs(exact) * 2.0**-48:  # double has 53 bits, float 24
            deviations.add("via double")
        else:
            deviations.add("via float" if error <= abs(exact) * 2.0**-20 else "wrong")
    return deviations


def _classify_floats(result: Array, expected: Array) -> set[str]:
    """Classify floats; errors in the lower half of the significand depend on the processor.

    Such errors are no deviations.
    """
    info = float_info(result.dtype)
    actual, exact = result.astype(np.float64).ravel(), expected.astype(np.longdouble).ravel()
    is_compared = exact != NOT_COMPARED
    actual, exact = actual[is_compared], exact[is_compared]
    is_nan, is_inf = np.isnan(exact), np.isinf(exact)
    deviations: set[str] = set()
    if (is_inf & (actual != exact.astype(np.float64))).any():
        deviations.add("drops infinity")
    both_zero = (exact == 0) & (actual == 0)
    if (both_zero & (np.signbit(actual) != np.signbit(exact))).any():
        deviations.add("drops sign of 0")
    if (is_nan & ~np.isnan(actual)).any():
        return deviations | {"drops NaN"}  # the other numbers may have moved, as in a sorted row
    # numbers near the limits of the type may overflow by rounding
    in_range = ~is_nan & (np.abs(exact) < info.most / 2)
    if (in_range & ~np.isfinite(actual)).any():
        deviations.add("overflows")
    is_normal = in_range & np.isfinite(actual) & (np.abs(exact) >= info.normal)
    if (is_normal & (np.abs(actual - exact) > np.abs(exact) * 2.0 ** (-info.bits // 2))).any():
        deviations.add("loses digits")
    return deviations


def measure_operator(
    schema: OnnxSchema, elem_types: Iterable[int], opset: int
) -> dict[str, dict[str, tuple[int, ...]]] | None:
    """Measure the kernels for these element types: variant -> deviation -> types.

    Return None for an operator that is not measured; exact variants are left out.
    """
    by_variant: dict[str, dict[int, set[str]]] = {}
    for elem_type in elem_types:
        for variant, deviations in (measure_deviations(schema, elem_type, opset) or {}).items():
            by_variant.setdefault(variant, {})[elem_type] = deviations
    if not by_variant:
        return None
    return {
        variant: types
        for variant, by_type in by_variant.items()
        if (types := _group_by_deviation(by_type))
    }


def _group_by_deviation(deviations_by_type: Mapping[int, set[str]]) -> dict[str, tuple[int, ...]]:
    return {
        deviation: tuple(
            t for t, deviations in sorted(deviations_by_type.items()) if deviation in deviations
        )
        for deviation in DEVIATIONS
        if any(deviation in deviations for deviations in deviations_by_type.values())
    }
