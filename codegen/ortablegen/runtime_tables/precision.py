"""Measure how exactly the kernels of the installed ONNX Runtime compute: sessions of one node are
fed what `probes.py` lists, and compared with exact arithmetic."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from ortable import dtypes
from ortablegen.schemas.onnx import OnnxSchema

from .probes import ANYTHING, PROBES, VARIANTS, Array, Maker, Probe, exact, float_info

PROVIDER = "CPUExecutionProvider"
# What a kernel does that exact arithmetic does not, in the order in which the table says it.
DEVIATIONS = (
    "wrong", "via double", "via float", "saturates", "drops NaN", "drops infinity", "overflows",
    "drops sign of 0", "loses digits",
)  # fmt: skip


def deviations(schema: OnnxSchema, element: int, opset: int) -> dict[str, set[str]] | None:
    """What the operator's kernel for one type does at one opset, by variant ("" for the plain
    operator); None where it is not measured, or the types do not run."""
    dtype = dtypes.to_numpy(element)
    found: dict[str, set[str]] = {}
    for variant, maker in makers(schema):
        seen = _measured(schema, maker, dtype, opset)
        if seen is not None:
            found[variant] = seen
    return found or None


def makers(schema: OnnxSchema) -> list[tuple[str, Maker]]:
    """The probes of an operator by variant."""
    if schema.domain:
        return []
    plain = [("", PROBES[schema.op])] if schema.op in PROBES else []
    return plain + list(VARIANTS.get(schema.op, {}).items())


def _measured(
    schema: OnnxSchema, maker: Maker, dtype: np.dtype[Any], opset: int
) -> set[str] | None:
    found: set[str] = set()
    sessions: dict[object, Any] = {}
    ran = False
    with np.errstate(all="ignore"):
        for probe in maker(dtype):
            key = _kind_of(probe)
            if key not in sessions:
                sessions[key] = _session(schema, probe, opset)
            got = _run(sessions[key], probe)
            if got is None:
                return None
            ran = True
            found |= judged(probe, got)
    return found if ran else None


def _kind_of(probe: Probe) -> object:
    inputs = tuple(None if x is None else (x.dtype.name, x.ndim) for x in probe.inputs)
    return inputs, repr(sorted(probe.attributes.items()))


# -- running


def _session(schema: OnnxSchema, probe: Probe, opset: int) -> Any:
    from onnx import helper

    given = [(f"x{i}", x) for i, x in enumerate(probe.inputs) if x is not None]
    names = [f"x{i}" if x is not None else "" for i, x in enumerate(probe.inputs)]
    inputs = [
        helper.make_tensor_value_info(name, dtypes.from_numpy(x.dtype), [None] * x.ndim)
        for name, x in given
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
        (found,) = session.run_with_ort_values(None, values)
    except Exception:  # as above
        return None
    return torch.from_dlpack(found._ortvalue.to_dlpack())


def _run(session: Any, probe: Probe) -> Array | None:
    import torch

    if session is None:
        return None
    feeds = {f"x{i}": x for i, x in enumerate(probe.inputs) if x is not None}
    tensor = run_node(session, feeds)
    if tensor is not None and tensor.dtype == torch.bfloat16:
        return tensor.view(torch.uint16).numpy().view(dtypes.to_numpy(dtypes.bfloat16))
    return None if tensor is None else tensor.numpy()


# -- judging


def judged(probe: Probe, got: Array) -> set[str]:
    """What is wrong with a result, in the words of the table."""
    given = [None if x is None else exact(x) for x in probe.inputs]
    wanted = np.asarray(probe.meaning(*given))
    if wanted.size not in (1, got.size):
        return {"wrong"}  # other sizes
    wanted = np.broadcast_to(wanted, got.shape) if wanted.size == 1 else wanted.reshape(got.shape)
    own = probe.inputs[1] if got.dtype.kind == "b" and len(probe.inputs) > 2 else probe.inputs[0]
    assert own is not None
    if got.dtype.kind == "b" or (got.dtype != own.dtype and got.dtype.kind in "iu"):
        return _judged_choice(probe, got, wanted)
    if got.dtype.kind in "iu":
        return _judged_ints(got, wanted)
    return _judged_floats(got, wanted)


def _judged_choice(probe: Probe, got: Array, wanted: Array) -> set[str]:
    """Truths and places: what is wrong is due to NaN where the numbers without it are right."""
    if np.array_equal(got.astype(np.int64), wanted.astype(np.int64)):
        return set()
    first = probe.inputs[0]
    assert first is not None
    if first.dtype.kind not in "iub" and np.isnan(first.astype(np.float64)).any():
        lost = np.isnan(first.astype(np.float64))
        rows = lost.any(axis=int(probe.attributes["axis"])) if first.ndim > 1 else lost
        if rows.shape == got.shape and np.array_equal(
            got[~rows].astype(np.int64), wanted[~rows].astype(np.int64)
        ):
            return {"drops NaN"}
    return {"wrong"}


def _judged_ints(got: Array, wanted: Array) -> set[str]:
    """Ints wrap around, as torch's do. What is near is what a float made of it."""
    low, high = int(np.iinfo(got.dtype).min), int(np.iinfo(got.dtype).max)
    found = set()
    for have, want in zip(got.ravel().tolist(), map(int, wanted.ravel().tolist()), strict=True):
        off = abs(have - want)
        if (have - want) % (high - low + 1) == 0:
            continue
        if not low <= want <= high:
            found.add("saturates")
        elif off <= abs(want) * 2.0**-48:
            found.add("via double")
        else:
            found.add("via float" if off <= abs(want) * 2.0**-20 else "wrong")
    return found


def _judged_floats(got: Array, wanted: Array) -> set[str]:
    """What is told apart is the same on every processor: the last digits are not."""
    info = float_info(got.dtype)
    have, want = got.astype(np.float64).ravel(), wanted.astype(np.longdouble).ravel()
    asked = want != ANYTHING
    have, want = have[asked], want[asked]
    is_nan, is_inf = np.isnan(want), np.isinf(want)
    found: set[str] = set()
    if (is_inf & (have != want.astype(np.float64))).any():
        found.add("drops infinity")
    zero = (want == 0) & (have == 0)
    if (zero & (np.signbit(have) != np.signbit(want))).any():
        found.add("drops sign of 0")
    if (is_nan & ~np.isnan(have)).any():
        return found | {"drops NaN"}  # other numbers may stand elsewhere, as in a sorted row
    # numbers near the ends of the type may be rounded beyond them
    near = ~is_nan & (np.abs(want) < info.most / 2)
    if (near & ~np.isfinite(have)).any():
        found.add("overflows")
    both = near & np.isfinite(have) & (np.abs(want) >= info.normal)
    if (both & (np.abs(have - want) > np.abs(want) * 2.0 ** (-info.bits // 2))).any():
        found.add("loses digits")
    return found


def measured(
    schema: OnnxSchema, elements: Iterable[int], opset: int
) -> dict[str, dict[str, tuple[int, ...]]] | None:
    """Types by deviation and variant of what the kernels for ``elements`` do; None for an operator
    that is not measured, an empty mapping for one that is exact."""
    found: dict[str, dict[int, set[str]]] = {}
    for element in elements:
        for variant, words in (deviations(schema, element, opset) or {}).items():
            found.setdefault(variant, {})[element] = words
    if not found:
        return None
    return {variant: types for variant, each in found.items() if (types := _by_word(each))}


def _by_word(words_of: Mapping[int, set[str]]) -> dict[str, tuple[int, ...]]:
    return {
        word: tuple(t for t, words in sorted(words_of.items()) if word in words)
        for word in DEVIATIONS
        if any(word in words for words in words_of.values())
    }
