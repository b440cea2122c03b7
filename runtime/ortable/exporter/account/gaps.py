"""How far one result is from eager's, and what the results inside a model are. In come tensors, or
a model and its inputs, out come a `Gap` or tensors. Called by `first_difference.py` and by the
debugger, so that both mean the same by a difference."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import onnx
import torch

from ortable.builder import LargeModel

from .sessions import make_session, proto_of, run_session
from .tolerances import EXACT, Tolerance

__all__ = ["Gap", "gap_between", "intermediate_results", "with_outputs"]


@dataclass(frozen=True)
class Gap:
    """A difference over the tolerance: the largest one (infinite where dtypes or shapes differ, or
    only one value is finite), and what differs, in words."""

    largest: float
    what: str


def gap_between(expected: torch.Tensor, got: torch.Tensor, tolerance: Tolerance) -> Gap | None:
    """What is wrong with `got`; None where it is as near to `expected`, eager's, as it has to be.

    Two NaN are equal, and so are two infinities of one sign. Both are real.
    """
    if expected.dtype != got.dtype:
        return Gap(math.inf, f"dtype {_name(got)} in place of {_name(expected)}")
    if expected.shape != got.shape:
        return Gap(math.inf, f"shape {list(got.shape)} in place of {list(expected.shape)}")
    if not expected.numel():
        return None
    a, b = _comparable(expected), _comparable(got)
    same = (a == b) | (a.isnan() & b.isnan()) if a.dtype.is_floating_point else a == b
    wide_a, wide_b = _wide(a), _wide(b)
    away = (wide_a - wide_b).abs().to(torch.float64).nan_to_num(math.inf, math.inf)
    away = torch.where(same, 0.0, away)
    wrong = ~same
    if tolerance != EXACT:
        near = away <= tolerance.atol + tolerance.rtol * wide_a.abs()
        wrong = wrong & ~(near & wide_a.isfinite())
    if not bool(wrong.any()):
        return None
    flat = int(torch.where(wrong, away, -1.0).argmax())
    place = [int(each) for each in torch.unravel_index(torch.tensor(flat), a.shape)]
    atol, rtol = tolerance
    found, wanted = b.reshape(-1)[flat].item(), a.reshape(-1)[flat].item()
    return Gap(
        float(away.reshape(-1)[flat]),
        f"{int(wrong.sum())} of {wrong.numel()} values, most at {place}: {_text(found)} in place "
        f"of {_text(wanted)} (atol {atol:g}, rtol {rtol:g})",
    )


def _comparable(tensor: torch.Tensor) -> torch.Tensor:
    """The same values in a dtype that torch compares: 8-bit floats have no operators."""
    tensor = tensor.detach().cpu()
    if tensor.dtype.is_floating_point and tensor.dtype.itemsize < 4:
        return tensor.to(torch.float32)
    return tensor


def _wide(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.to(torch.float64 if tensor.dtype.is_floating_point else torch.int64)


def _name(tensor: torch.Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def _text(value: Any) -> str:
    return f"{value:.7g}" if isinstance(value, float) else str(value)


def intermediate_results(
    model: Any,
    feeds: Mapping[str, Any],
    names: Sequence[str],
    providers: Sequence[Any] | None = None,
) -> dict[str, torch.Tensor]:
    """Results of a model by their names, each as the model has it: ONNX Runtime fuses nothing.

    :param model: a ModelProto or LargeModel
    :param feeds: arrays by the names of inputs

    Raises what ONNX Runtime raises where it cannot run the model.
    """
    import onnxruntime

    level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    settings = {"graph_optimization_level": level, "log_severity_level": 4}
    session = make_session(with_outputs(model, names), providers, settings)
    found = run_session(session, feeds, names)
    return dict(zip(names, found, strict=True))


def with_outputs(model: Any, names: Sequence[str]) -> Any:
    """A copy of the model that has these results as outputs, too."""
    proto = onnx.ModelProto()
    proto.CopyFrom(proto_of(model))
    outputs = {value.name for value in proto.graph.output}
    proto.graph.output.extend(
        onnx.ValueInfoProto(name=name) for name in names if name not in outputs
    )
    return LargeModel(proto, model.tensors, model.nested) if model is not proto_of(model) else proto
