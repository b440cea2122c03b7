"""Compare ONNX Runtime's Attention kernel with torch and onnx.reference, for kernels.yaml.

``python -m tests.exporter.attention.kernels`` prints the rows of the installed versions.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
import onnxruntime
import torch
from onnx import helper
from onnx.reference import ReferenceEvaluator

from .cells import Shape, mask_of, normal, qkv

OPSETS = (23, 24, 25)
_NAMES = ("Q", "K", "V", "attn_mask", "past_key", "past_value", "nonpad_kv_seqlen")
_SHAPE = Shape(heads=4, groups=4)


@dataclass(frozen=True)
class Corner:
    """An edge case of Attention; ``index`` selects the compared result: 0 output, 3 scores."""

    name: str
    inputs: tuple[torch.Tensor | None, ...]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    index: int = 0
    opset: int = 23


def corners() -> tuple[Corner, ...]:
    """Return the edge cases in the order of the table."""
    args, square = qkv(_SHAPE, False), qkv(Shape(queries=4, keys=4), False)
    few_keys, float16_args = qkv(Shape(queries=5, keys=3), False), qkv(_SHAPE, False, torch.float16)
    float64_args = qkv(_SHAPE, False, torch.float64)
    past = (*qkv(Shape(queries=3, keys=3), False), None, *(normal(2, 2, 2, 8) for _ in range(2)))
    masks = {
        kind: mask_of(kind, _SHAPE, "qk")
        for kind in ("bool", "bool hidden", "float", "float hidden", "float lowest")
    }
    softcap, causal = {"softcap": 0.7}, {"is_causal": 1}
    lengths = torch.tensor([3, 5])
    return (
        Corner("causal, fewer queries than keys", args, causal),
        Corner("causal, more queries than keys", few_keys, causal),
        Corner("causal, behind a past", past, causal),
        Corner("grouped heads", qkv(Shape(heads=4, groups=2), False)),
        Corner("no scale, or one above 0", args, {"scale": 0.3}),
        Corner("a scale of 0", args, {"scale": 0.0}),
        Corner("softcap", args, softcap),
        Corner("softcap and causal", square, {**softcap, **causal}),
        Corner("softcap and a mask of bools", (*args, masks["bool"]), softcap),
        Corner("softcap and an added mask", (*args, masks["float"]), softcap),
        Corner("a row hidden by False", (*args, masks["bool hidden"])),
        Corner("a row hidden by False, float64", (*float64_args, masks["bool hidden"])),
        Corner("a row hidden by False, float16", (*float16_args, masks["bool hidden"])),
        Corner("a row hidden by -inf", (*args, masks["float hidden"])),
        Corner("a row of the lowest number", (*args, masks["float lowest"])),
        Corner("a mask for all queries at once", (*args, mask_of("bool", _SHAPE, "B11k"))),
        Corner("a mask for all keys at once", (*args, mask_of("float", _SHAPE, "11q1"))),
        Corner("a mask narrower than the keys", (*args, masks["bool"][:, :3])),
        Corner("nonpad_kv_seqlen", (*args, None, None, None, lengths), opset=24),
        Corner("scores of mode 0 with softcap", args, softcap, 3),
        *(
            Corner(
                f"scores of mode {mode} {name}", call, {"qk_matmul_output_mode": mode, **extra}, 3
            )
            for mode in (1, 2, 3)
            for name, call, extra in (
                ("with an added mask", (*args, masks["float"]), {}),
                ("with a mask of bools", (*args, masks["bool"]), {}),
                ("and causal", square, causal),
                ("with softcap", args, softcap),
            )
        ),
        Corner("softmax_precision of float16", args, {"softmax_precision": 10}),
    )


def row(corner: Corner) -> dict[str, str]:
    """Compare the results of onnx.reference and of ONNX Runtime at each opset with torch's.

    The words are "equal", "differs", "NaN" where torch is finite, "0" for rows that are NaN in
    torch, and "refused". If torch has no such call, the reference is "alone" and replaces torch.
    """
    expected, reference = _of_torch(corner), _of_reference(corner)
    verdicts = {"reference": "alone" if expected is None else _verdict(reference, expected)}
    for opset in OPSETS:
        if opset >= corner.opset:
            result = _of_runtime(corner, opset)
            verdicts[str(opset)] = _verdict(result, reference if expected is None else expected)
    return verdicts


def _verdict(result: np.ndarray | None, expected: np.ndarray | None) -> str:
    if result is None or expected is None:
        return "refused"
    if result.shape != expected.shape:
        return "differs"
    if np.isnan(result).any() and not np.isnan(expected).any():
        return "NaN"
    empty = np.isnan(expected)
    if empty.any() and not result[empty].any():
        return "0"
    tol = 3e-3 if expected.dtype == np.float16 else 2e-5
    return "equal" if np.allclose(result, expected, tol, tol, equal_nan=True) else "differs"


def _of_torch(corner: Corner) -> np.ndarray | None:
    if len(corner.inputs) > 6:
        return None
    q, k, v, *optional = corner.inputs
    mask, past_key, past_value = (*optional, None, None, None)[:3]
    options = {**corner.attributes, "past_key": past_key, "past_value": past_value}
    options["is_causal"] = bool(options.get("is_causal", 0))
    try:
        results = torch.onnx.ops.attention(q, k, v, mask, **options)
    except (RuntimeError, ValueError, IndexError):
        return None
    return results[corner.index].numpy()


def _model(corner: Corner, opset: int) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    pairs = dict(zip(_NAMES, corner.inputs, strict=False))
    feeds = {name: tensor.numpy() for name, tensor in pairs.items() if tensor is not None}
    outputs = ["Y", "", "", "scores"][: corner.index + 1]
    if "past_key" in feeds:  # The kernel accepts a past only with these outputs.
        outputs = ["Y", "present_key", "present_value"]
    names = [name if name in feeds else "" for name in pairs]
    node = helper.make_node("Attention", names, outputs, **corner.attributes)
    types = {name: helper.np_dtype_to_tensor_dtype(feed.dtype) for name, feed in feeds.items()}
    inputs = [
        helper.make_tensor_value_info(name, types[name], feed.shape) for name, feed in feeds.items()
    ]
    output = helper.make_tensor_value_info(["Y", "", "", "scores"][corner.index], types["Q"], None)
    graph = helper.make_graph([node], "corner", inputs, [output])
    version = 11 if opset < 25 else 13
    opsets = [helper.make_opsetid("", opset)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=version), feeds


def _of_runtime(corner: Corner, opset: int) -> np.ndarray | None:
    model, feeds = _model(corner, opset)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    try:
        session = onnxruntime.InferenceSession(
            model.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
        return np.asarray(session.run(None, feeds)[0])
    except Exception:  # ONNX Runtime has no public exception class.
        return None


def _of_reference(corner: Corner) -> np.ndarray | None:
    model, feeds = _model(corner, max(OPSETS[1], corner.opset))
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            return np.asarray(ReferenceEvaluator(model).run(None, feeds)[0])
    except (ValueError, AssertionError, IndexError):
        return None


def version() -> str:
    """Return the installed version of ONNX Runtime as the table names it."""
    return ".".join(onnxruntime.__version__.split(".")[:2])


if __name__ == "__main__":
    for corner in corners():
        verdicts = row(corner)
        reference = verdicts.pop("reference")
        print(f'- {{corner: "{corner.name}", reference: {reference}, "{version()}": {verdicts}}}')
