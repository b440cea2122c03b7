"""Measure how exactly the kernels of the installed ONNX Runtime compute.

Sessions of one node run the probes of `probes.py`; results are compared with exact arithmetic.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from ortable import dtypes
from ortablegen.schemas.onnx import OnnxSchema

from .probes import ANYTHING, PROBES, VARIANTS, Array, Maker, Probe, float_info, to_exact

PROVIDER = "CPUExecutionProvider"
# What a kernel does that exact arithmetic does not, in the order in which the table says it.
DEVIATIONS = (
    "wrong", "via double", "via float", "saturates", "drops NaN", "drops infinity", "overflows",
    "drops sign of 0", "loses digits",
)  # fmt: skip


def measure_deviations(schema: OnnxSchema, element: int, opset: int) -> dict[str, set[str]] | None:
    """Measure the operator's kernel for one type at one opset, by variant ("": plain operator).

    None where it is not measured, or the types do not run.
    """
    dtype = dtypes.to_numpy(element)
    by_variant: dict[str, set[str]] = {}
    for variant, maker in probe_makers(schema):
        seen = _run_probes(schema, maker, dtype, opset)
        if seen is not None:
            by_variant[variant] = seen
    return by_variant or None


def probe_makers(schema: OnnxSchema) -> list[tuple[str, Maker]]:
    """The probes of an operator by variant."""
    if schema.domain:
        return []
    plain = [("", PROBES[schema.op])] if schema.op in PROBES else []
    return plain + list(VARIANTS.get(schema.op, {}).items())


def _run_probes(
    schema: OnnxSchema, maker: Maker, dtype: np.dtype[Any], opset: int
) -> set[str] | None:
    words: set[str] = set()
    sessions: dict[object, Any] = {}
    ran = False
    with np.errstate(all="ignore"):
        for probe in maker(dtype):
            key = _kind_of(probe)
            if key not in sessions:
                sessions[key] = _make_session(schema, probe, opset)
            got = _run_probe(sessions[key], probe)
            if got is None:
                return None
            ran = True
            words |= classify_result(probe, got)
    return words if ran else None


def _kind_of(probe: Probe) -> object:
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
    """Make a session of one node, of which the first output is read; None if it does not load."""
    import onnxruntime
    from onnx import helper

    # an output without a type: the session infers it
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
    except Exception:  # the runtime's many error classes share no base; any refusal is a refusal
        return None


def run_node(session: Any, feeds: Mapping[str, Array]) -> Any:
    """Run such a session; None if it refuses the inputs, which are of any type of ONNX."""
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
    except Exception:  # as above
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


# -- judging


def classify_result(probe: Probe, got: Array) -> set[str]:
    """Return the deviations of a result, in the words of the table."""
    operands = [None if x is None else to_exact(x) for x in probe.inputs]
    expected = np.asarray(probe.meaning(*operands))
    if expected.size not in (1, got.size):
        return {"wrong"}  # other sizes
    expected = (
        np.broadcast_to(expected, got.shape) if expected.size == 1 else expected.reshape(got.shape)
    )
    typed_input = (
        probe.inputs[1] if got.dtype.kind == "b" and len(probe.inputs) > 2 else probe.inputs[0]
    )
    assert typed_input is not None
    if got.dtype.kind == "b" or (got.dtype != typed_input.dtype and got.dtype.kind in "iu"):
        return _classify_choice(probe, got, expected)
    if got.dtype.kind in "iu":
        return _classify_ints(got, expected)
    return _classify_floats(got, expected)


def _classify_choice(probe: Probe, got: Array, expected: Array) -> set[str]:
    """Classify booleans and indices: NaN is to blame where the numbers without it are right."""
    if np.array_equal(got.astype(np.int64), expected.astype(np.int64)):
        return set()
    first = probe.inputs[0]
    assert first is not None
    if first.dtype.kind not in "iub" and np.isnan(first.astype(np.float64)).any():
        lost = np.isnan(first.astype(np.float64))
        rows = lost.any(axis=int(probe.attributes["axis"])) if first.ndim > 1 else lost
        if rows.shape == got.shape and np.array_equal(
            got[~rows].astype(np.int64), expected[~rows].astype(np.int64)
        ):
            return {"drops NaN"}
    return {"wrong"}


def _classify_ints(got: Array, expected: Array) -> set[str]:
    """Classify ints, which wrap around as torch's do; near misses went through a float."""
    low, high = int(np.iinfo(got.dtype).min), int(np.iinfo(got.dtype).max)
    words = set()
    for have, want in zip(got.ravel().tolist(), map(int, expected.ravel().tolist()), strict=True):
        off = abs(have - want)
        if (have - want) % (high - low + 1) == 0:
            continue
        if not low <= want <= high:
            words.add("saturates")
        elif off <= abs(want) * 2.0**-48:
            words.add("via double")
        else:
            words.add("via float" if off <= abs(want) * 2.0**-20 else "wrong")
    return words


def _classify_floats(got: Array, expected: Array) -> set[str]:
    """Classify floats by what is the same on every processor: the last digits are not."""
    info = float_info(got.dtype)
    have, want = got.astype(np.float64).ravel(), expected.astype(np.longdouble).ravel()
    is_compared = want != ANYTHING
    have, want = have[is_compared], want[is_compared]
    is_nan, is_inf = np.isnan(want), np.isinf(want)
    words: set[str] = set()
    if (is_inf & (have != want.astype(np.float64))).any():
        words.add("drops infinity")
    zero = (want == 0) & (have == 0)
    if (zero & (np.signbit(have) != np.signbit(want))).any():
        words.add("drops sign of 0")
    if (is_nan & ~np.isnan(have)).any():
        return words | {"drops NaN"}  # other numbers may stand elsewhere, as in a sorted row
    # numbers near the ends of the type may be rounded beyond them
    near = ~is_nan & (np.abs(want) < info.most / 2)
    if (near & ~np.isfinite(have)).any():
        words.add("overflows")
    both = near & np.isfinite(have) & (np.abs(want) >= info.normal)
    if (both & (np.abs(have - want) > np.abs(want) * 2.0 ** (-info.bits // 2))).any():
        words.add("loses digits")
    return words


def measure_operator(
    schema: OnnxSchema, elements: Iterable[int], opset: int
) -> dict[str, dict[str, tuple[int, ...]]] | None:
    """Types by deviation and variant of what the kernels for ``elements`` do; None for an operator
    that is not measured, an empty mapping for one that is exact."""
    by_variant: dict[str, dict[int, set[str]]] = {}
    for element in elements:
        for variant, words in (measure_deviations(schema, element, opset) or {}).items():
            by_variant.setdefault(variant, {})[element] = words
    if not by_variant:
        return None
    return {
        variant: types
        for variant, by_element in by_variant.items()
        if (types := _by_word(by_element))
    }


def _by_word(words_of: Mapping[int, set[str]]) -> dict[str, tuple[int, ...]]:
    return {
        word: tuple(t for t, words in sorted(words_of.items()) if word in words)
        for word in DEVIATIONS
        if any(word in words for words in words_of.values())
    }
