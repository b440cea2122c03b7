"""Compute tolerances, numeric differences, and intermediate results of a model.

Validation, the check of an exported program and the debugger share these tolerances.
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
    """A value may differ from eager's value by ``atol + rtol * abs(eager)``."""

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
    """Return the tolerance of a torch or numpy dtype, or of its name.

    It is `EXACT` for all dtypes but float64, float32, float16 and bfloat16.
    """
    return _FLOAT_TOLERANCES.get(str(dtype).removeprefix("torch."), EXACT)


@dataclass(frozen=True)
class ToleranceOverride:
    """A requested tolerance, ``atol + rtol * abs(eager)``; None is the default of the dtype."""

    atol: float | None = None
    rtol: float | None = None

    def of(self, dtype: torch.dtype) -> Tolerance:
        """Return the tolerance of a dtype; integers and booleans must be equal."""
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

    ``largest`` is the largest absolute difference among the values above the tolerance, infinite if
    dtypes or shapes differ; ``what`` describes the difference.
    """

    largest: float
    what: str
    expected: torch.Tensor = field(repr=False, compare=False)
    got: torch.Tensor = field(repr=False, compare=False)


def compare_tensors(
    expected: torch.Tensor, got: torch.Tensor, tolerance: Tolerance
) -> NumericDiff | None:
    """Compare `got` with `expected`, eager's value; return None if it is within the tolerance.

    Two NaN are equal, and so are two infinities of the same sign. Both tensors are real.
    """
    if expected.dtype != got.dtype:
        description = f"dtype {_dtype_name(got)} in place of {_dtype_name(expected)}"
        return NumericDiff(math.inf, description, expected, got)
    if expected.shape != got.shape:
        description = f"shape {list(got.shape)} in place of {list(expected.shape)}"
        return NumericDiff(math.inf, description, expected, got)
    if not expected.numel():
        return None
    differences = absolute_differences(expected, got)
    is_wrong = differences != 0
    if tolerance != EXACT:
        expected_wide = _widen(expected)
        is_near = differences <= tolerance.atol + tolerance.rtol * expected_wide.abs()
        is_wrong = is_wrong & ~(is_near & expected_wide.isfinite())
    if not bool(is_wrong.any()):
        return None
    index = int(torch.where(is_wrong, differences, -1.0).argmax())
    position = [int(item) for item in torch.unravel_index(torch.tensor(index), differences.shape)]
    location = f" at {position}" if position else ""
    atol, rtol = tolerance
    got_value, expected_value = (
        _as_comparable(item).reshape(-1)[index].item() for item in (got, expected)
    )
    description = (
        f"{int(is_wrong.sum())} of {is_wrong.numel()} values, most{location}: "
        f"{_format_value(got_value)} in place of {_format_value(expected_value)} "
        f"(atol {atol:g}, rtol {rtol:g})"
    )
    return NumericDiff(float(differences.reshape(-1)[index]), description, expected, got)


def absolute_differences(expected: torch.Tensor, got: torch.Tensor) -> torch.Tensor:
    """Return absolute differences as float64.

    The difference is 0 for two NaN and for equal infinities. It is infinite for any other pair with
    a NaN or an infinity.
    """
    a, b = _widen(expected), _widen(got)
    is_equal = (a == b) | (a.isnan() & b.isnan()) if a.dtype.is_floating_point else a == b
    difference = (a - b).abs().to(torch.float64).nan_to_num(math.inf, math.inf)
    return torch.where(is_equal, 0.0, difference)


def _as_comparable(tensor: torch.Tensor) -> torch.Tensor:
    """Copy to the CPU, and 8-bit and 16-bit floats to float32; 8-bit floats have no operators."""
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
    """Run a model without ONNX Runtime's graph optimizations; return the results ``names`` by name.

    Raises ONNX Runtime's error if it cannot run the model.
    """
    import onnxruntime

    level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    settings = {"graph_optimization_level": level, "log_severity_level": 4}
    session = make_session(with_outputs(model, names), providers, settings)
    results = run_session(session, feeds, names)
    return dict(zip(names, results, strict=True))


def with_outputs(model: Any, names: Sequence[str]) -> Any:
    """Return a copy of the model in which the results ``names`` are outputs, too."""
    proto = onnx.ModelProto()
    proto.CopyFrom(proto_of(model))
    outputs = {value.name for value in proto.graph.output}
    proto.graph.output.extend(
        onnx.ValueInfoProto(name=name) for name in names if name not in outputs
    )
    return LargeModel(proto, model.tensors, model.nested) if model is not proto_of(model) else proto
