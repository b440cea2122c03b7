"""Tolerances, numeric differences, and intermediate results of a model.

Validation of a model, the check of an exported program and the debugger share this one table of
tolerances and one `NumericDiff`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import onnx
import torch

from ortable.builder import LargeModel
from ortable.exporter.reporting.sessions import make_session, proto_of, run_session


class Tolerance(NamedTuple):
    """A value may be off by ``atol + rtol * abs(eager's)``."""

    atol: float
    rtol: float


EXACT = Tolerance(0.0, 0.0)
_FLOAT_TOLERANCES = {
    "float64": Tolerance(atol=1e-9, rtol=1e-7),
    "float32": Tolerance(atol=1e-4, rtol=1e-3),
    "float16": Tolerance(atol=1e-2, rtol=1e-2),
    "bfloat16": Tolerance(atol=5e-2, rtol=5e-2),
}


def tolerance_of(dtype: object) -> Tolerance:
    """The tolerance of a dtype of torch or numpy, or of its name; integers and booleans are
    equal."""
    return _FLOAT_TOLERANCES.get(str(dtype).removeprefix("torch."), EXACT)


@dataclass(frozen=True)
class ToleranceOverride:
    """A requested tolerance, ``atol + rtol * abs(eager's)``; None takes the default of the
    dtype.
    """

    atol: float | None = None
    rtol: float | None = None

    def of(self, dtype: torch.dtype) -> Tolerance:
        """Return the tolerance of a dtype; integers and booleans are exact."""
        if not dtype.is_floating_point:
            return EXACT
        default = tolerance_of(dtype)
        return Tolerance(
            default.atol if self.atol is None else self.atol,
            default.rtol if self.rtol is None else self.rtol,
        )


@dataclass(frozen=True)
class NumericDiff:
    """A difference above the tolerance.

    ``largest`` is infinite where dtypes or shapes differ, or only one value is finite; ``what``
    describes the difference.
    """

    largest: float
    what: str
    expected: torch.Tensor = field(repr=False, compare=False)
    got: torch.Tensor = field(repr=False, compare=False)


def compare_tensors(
    expected: torch.Tensor, got: torch.Tensor, tolerance: Tolerance
) -> NumericDiff | None:
    """Compare `got` with `expected`, eager's; None where it is within the tolerance.

    Two NaN are equal, and so are two infinities of one sign. Both tensors are real.
    """
    if expected.dtype != got.dtype:
        what = f"dtype {_dtype_name(got)} in place of {_dtype_name(expected)}"
        return NumericDiff(math.inf, what, expected, got)
    if expected.shape != got.shape:
        what = f"shape {list(got.shape)} in place of {list(expected.shape)}"
        return NumericDiff(math.inf, what, expected, got)
    if not expected.numel():
        return None
    away = absolute_differences(expected, got)
    wrong = away != 0
    if tolerance != EXACT:
        wide = _widen(expected)
        near = away <= tolerance.atol + tolerance.rtol * wide.abs()
        wrong = wrong & ~(near & wide.isfinite())
    if not bool(wrong.any()):
        return None
    flat = int(torch.where(wrong, away, -1.0).argmax())
    position = [int(item) for item in torch.unravel_index(torch.tensor(flat), away.shape)]
    at = f" at {position}" if position else ""
    atol, rtol = tolerance
    got_value, expected_value = (
        _as_comparable(item).reshape(-1)[flat].item() for item in (got, expected)
    )
    what = (
        f"{int(wrong.sum())} of {wrong.numel()} values, most{at}: {_format_value(got_value)} "
        f"in place of {_format_value(expected_value)} (atol {atol:g}, rtol {rtol:g})"
    )
    return NumericDiff(float(away.reshape(-1)[flat]), what, expected, got)


def absolute_differences(expected: torch.Tensor, got: torch.Tensor) -> torch.Tensor:
    """Return absolute differences as float64.

    0 for two NaN and for equal infinities, infinity where only one of them is finite.
    """
    a, b = _widen(expected), _widen(got)
    same = (a == b) | (a.isnan() & b.isnan()) if a.dtype.is_floating_point else a == b
    away = (a - b).abs().to(torch.float64).nan_to_num(math.inf, math.inf)
    return torch.where(same, 0.0, away)


def _as_comparable(tensor: torch.Tensor) -> torch.Tensor:
    """Convert to a dtype that torch compares: 8-bit floats have no operators."""
    tensor = tensor.detach().cpu()
    if tensor.dtype.is_floating_point and tensor.dtype.itemsize < 4:
        return tensor.to(torch.float32)
    return tensor


def _widen(tensor: torch.Tensor) -> torch.Tensor:
    tensor = _as_comparable(tensor)
    return tensor.to(torch.float64 if tensor.dtype.is_floating_point else torch.int64)


def _dtype_name(tensor: torch.Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def _format_value(value: Any) -> str:
    return f"{value:.7g}" if isinstance(value, float) else str(value)


def intermediate_results(
    model: Any,
    feeds: Mapping[str, Any],
    names: Sequence[str],
    providers: Sequence[Any] | None = None,
) -> dict[str, torch.Tensor]:
    """Results of a model by their names, each as the model has it: ONNX Runtime fuses nothing.

    Raises what ONNX Runtime raises where it cannot run the model.
    """
    import onnxruntime

    level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    settings = {"graph_optimization_level": level, "log_severity_level": 4}
    session = make_session(with_outputs(model, names), providers, settings)
    results = run_session(session, feeds, names)
    return dict(zip(names, results, strict=True))


def with_outputs(model: Any, names: Sequence[str]) -> Any:
    """Return a copy of the model with these results as additional outputs."""
    proto = onnx.ModelProto()
    proto.CopyFrom(proto_of(model))
    outputs = {value.name for value in proto.graph.output}
    proto.graph.output.extend(
        onnx.ValueInfoProto(name=name) for name in names if name not in outputs
    )
    return LargeModel(proto, model.tensors, model.nested) if model is not proto_of(model) else proto
