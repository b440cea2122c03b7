"""What ONNX Runtime's kernel of Attention does in the corners that errata have changed, beside
torch and onnx.reference. In comes nothing, out go rows as kernels.yaml has them.

``python -m tests.exporter.attention.kernels`` prints those of the installed versions. Called by the
test of kernels.yaml."""

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
    """One call of Attention; ``shows``: which result, the output or the scores."""

    name: str
    inputs: tuple[torch.Tensor | None, ...]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    shows: int = 0
    opset: int = 23


def corners() -> tuple[Corner, ...]:
    """The corners, by the names that the table has."""
    args, square = qkv(_SHAPE, False), qkv(Shape(queries=4, keys=4), False)
    short, half = qkv(Shape(queries=5, keys=3), False), qkv(_SHAPE, False, torch.float16)
    double = qkv(_SHAPE, False, torch.float64)
    past = (*qkv(Shape(queries=3, keys=3), False), None, *(normal(2, 2, 2, 8) for _ in range(2)))
    masks = {
        each: mask_of(each, _SHAPE, "qk")
        for each in ("bool", "bool hidden", "float", "float hidden", "float lowest")
    }
    cap, causal = {"softcap": 0.7}, {"is_causal": 1}
    lengths = torch.tensor([3, 5])
    return (
        Corner("causal, fewer queries than keys", args, causal),
        Corner("causal, more queries than keys", short, causal),
        Corner("causal, behind a past", past, causal),
        Corner("grouped heads", qkv(Shape(heads=4, groups=2), False)),
        Corner("no scale, or one above 0", args, {"scale": 0.3}),
        Corner("a scale of 0", args, {"scale": 0.0}),
        Corner("softcap", args, cap),
        Corner("softcap and causal", square, {**cap, **causal}),
        Corner("softcap and a mask of bools", (*args, masks["bool"]), cap),
        Corner("softcap and an added mask", (*args, masks["float"]), cap),
        Corner("a row hidden by False", (*args, masks["bool hidden"])),
        Corner("a row hidden by False, float64", (*double, masks["bool hidden"])),
        Corner("a row hidden by False, float16", (*half, masks["bool hidden"])),
        Corner("a row hidden by -inf", (*args, masks["float hidden"])),
        Corner("a row of the lowest number", (*args, masks["float lowest"])),
        Corner("a mask for all queries at once", (*args, mask_of("bool", _SHAPE, "B11k"))),
        Corner("a mask for all keys at once", (*args, mask_of("float", _SHAPE, "11q1"))),
        Corner("a mask narrower than the keys", (*args, masks["bool"][:, :3])),
        Corner("nonpad_kv_seqlen", (*args, None, None, None, lengths), opset=24),
        Corner("scores of mode 0 with softcap", args, cap, 3),
        *(
            Corner(
                f"scores of mode {mode} {name}", given, {"qk_matmul_output_mode": mode, **more}, 3
            )
            for mode in (1, 2, 3)
            for name, given, more in (
                ("with an added mask", (*args, masks["float"]), {}),
                ("with a mask of bools", (*args, masks["bool"]), {}),
                ("and causal", square, causal),
                ("with softcap", args, cap),
            )
        ),
        Corner("softmax_precision of float16", args, {"softmax_precision": 10}),
    )


def row(corner: Corner) -> dict[str, str]:
    """What the reference, and the installed ONNX Runtime at each opset, make of a corner.

    By torch: "equal", "differs", "NaN" where torch is finite, "0" for rows that are NaN in torch,
    "refused". Where torch has no such call, by the reference, which is "alone" then."""
    told, reference = _of_torch(corner), _of_reference(corner)
    found = {"reference": "alone" if told is None else _judged(reference, told)}
    for opset in OPSETS:
        if opset >= corner.opset:
            computed = _of_runtime(corner, opset)
            found[str(opset)] = _judged(computed, reference if told is None else told)
    return found


def _judged(found: np.ndarray | None, told: np.ndarray | None) -> str:
    if found is None or told is None:
        return "refused"
    if found.shape != told.shape:
        return "differs"
    if np.isnan(found).any() and not np.isnan(told).any():
        return "NaN"
    empty = np.isnan(told)
    if empty.any() and not found[empty].any():
        return "0"
    near = 3e-3 if told.dtype == np.float16 else 2e-5
    return "equal" if np.allclose(found, told, near, near, equal_nan=True) else "differs"


def _of_torch(corner: Corner) -> np.ndarray | None:
    if len(corner.inputs) > 6:
        return None
    q, k, v, *more = corner.inputs
    mask, past_key, past_value = (*more, None, None, None)[:3]
    options = {**corner.attributes, "past_key": past_key, "past_value": past_value}
    options["is_causal"] = bool(options.get("is_causal", 0))
    try:
        found = torch.onnx.ops.attention(q, k, v, mask, **options)
    except (RuntimeError, ValueError, IndexError):
        return None
    return found[corner.shows].numpy()


def _model(corner: Corner, opset: int) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    pairs = dict(zip(_NAMES, corner.inputs, strict=False))
    feeds = {name: each.numpy() for name, each in pairs.items() if each is not None}
    outputs = ["Y", "", "", "scores"][: corner.shows + 1]
    if "past_key" in feeds:  # without these the kernel takes no past
        outputs = ["Y", "present_key", "present_value"]
    names = [name if name in feeds else "" for name in pairs]
    node = helper.make_node("Attention", names, outputs, **corner.attributes)
    kinds = {name: helper.np_dtype_to_tensor_dtype(each.dtype) for name, each in feeds.items()}
    inputs = [
        helper.make_tensor_value_info(name, kinds[name], each.shape) for name, each in feeds.items()
    ]
    shown = helper.make_tensor_value_info(["Y", "", "", "scores"][corner.shows], kinds["Q"], None)
    graph = helper.make_graph([node], "corner", inputs, [shown])
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
    except Exception:  # what ONNX Runtime raises has no class of its own
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
    """The installed ONNX Runtime, as the table names it."""
    return ".".join(onnxruntime.__version__.split(".")[:2])


if __name__ == "__main__":
    for each in corners():
        found = row(each)
        reference = found.pop("reference")
        print(f'- {{corner: "{each.name}", reference: {reference}, "{version()}": {found}}}')
