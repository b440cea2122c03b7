"""Run models without optimizers, and compare a model before and after a rewrite."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
import torch

from ortable import dims
from ortable.builder import GraphBuilder
from ortable.debug.arrays import to_numpy, to_torch
from ortable.debug.reference import ExtendedReferenceEvaluator

from .entries import make_session, run_session

# by dtype: about one unit in the last place, since a rewrite may change the order of operations
ROUNDING = {torch.float16: 2.0**-10, torch.bfloat16: 2.0**-7, torch.float64: 1e-12}
TOLERANCE = 1e-6
# Errors of a fault of ONNX Runtime: it frees values before the branches of an If read them, if a
# node reads the result of the If twice, as in Sub(taken, taken).
ORT_FAULT_MESSAGES = ("Missing Input:", "OrtValue::Get() const")


class ModelRunner:
    """A model that is loaded in ONNX Runtime once, and can run several times."""

    def __init__(self, model: onnx.ModelProto) -> None:
        self.session: Any = None
        self.why = ""
        try:
            self.session = make_session(model.SerializeToString(), optimize=False)
        except Exception as error:  # no kernel, or an unsupported opset
            self.why = str(error)
        self.model = model

    def __call__(self, feeds: Mapping[str, torch.Tensor]) -> list[torch.Tensor]:
        """Run the model, in the reference evaluator if ONNX Runtime cannot run it."""
        if self.session is not None:
            try:
                return run_session(self.session, feeds)
            except Exception as error:
                if not any(fault in str(error) for fault in ORT_FAULT_MESSAGES):
                    raise
        reference = ExtendedReferenceEvaluator(self.model)
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            arrays = {name: to_numpy(tensor) for name, tensor in feeds.items()}
            return [to_torch(array) for array in reference.run(None, arrays)]


# -- declarations


@dataclass(frozen=True)
class Declaration:
    """The declaration of a result of a graph."""

    name: str
    dtype: int | None
    shape: tuple[Any, ...] | None


def copy_declarations(infos: Sequence[Any]) -> list[Declaration]:
    """Copy the declarations of inputs or outputs of a builder."""
    return [
        Declaration(i.name, i.dtype, None if i.shape is None else tuple(i.shape)) for i in infos
    ]


def check_same_declarations(before: Sequence[Declaration], after: Sequence[Declaration]) -> None:
    """Check that a rewrite preserved names, dtypes and shapes."""
    assert [d.name for d in after] == [d.name for d in before]
    for old, new in zip(before, after, strict=True):
        assert new.dtype == old.dtype, f"{old.name}: dtype {new.dtype}, it was {old.dtype}"
        if old.shape is None or new.shape is None:
            assert old.shape is None, f"{old.name}: the shape {old.shape} is lost"
            continue
        assert len(old.shape) == len(new.shape), f"{old.name}: {new.shape}, it was {old.shape}"
        for a, b in zip(old.shape, new.shape, strict=True):
            assert equal_sizes(a, b), f"{old.name}: shape {new.shape}, it was {old.shape}"


def equal_sizes(a: Any, b: Any) -> bool:
    """Whether two sizes are equal: the same polynomial, or equal for all small symbol values.

    Enumeration covers sizes like ``n - min(2, n)``, which can be written in many ways.
    """
    if dims.always_equal(a, b):
        return True
    names = sorted(dims.free_symbols(a) | dims.free_symbols(b))
    for values in itertools.product(range(1, 9), repeat=len(names)):
        assignment = dict(zip(names, values, strict=True))
        if dims.evaluate_dim(a, assignment) != dims.evaluate_dim(b, assignment):
            return False
    return bool(names)


def check_same_inference(before: onnx.ModelProto, after: onnx.ModelProto) -> None:
    """Check that onnx infers the same types and shapes of the outputs for both models."""
    for old, new in zip(_infer_output_types(before), _infer_output_types(after), strict=True):
        assert new.elem_type in (old.elem_type, 0)  # 0: onnx infers no type for the operator
        if old.HasField("shape") and new.HasField("shape"):
            assert len(old.shape.dim) == len(new.shape.dim)
            for old_dim, new_dim in zip(old.shape.dim, new.shape.dim, strict=True):
                if old_dim.HasField("dim_value") and new_dim.HasField("dim_value"):
                    assert old_dim.dim_value == new_dim.dim_value


def _infer_output_types(model: onnx.ModelProto) -> list[Any]:
    """Infer types of the outputs from the nodes, not from their declarations."""
    undeclared = onnx.ModelProto()
    undeclared.CopyFrom(model)
    for output in undeclared.graph.output:
        output.ClearField("type")
        output.type.tensor_type.SetInParent()
    inferred = onnx.shape_inference.infer_shapes(undeclared, data_prop=True)
    return [output.type.tensor_type for output in inferred.graph.output]


def make_checked_model(builder: GraphBuilder) -> onnx.ModelProto:
    """Make the unoptimized model, and run onnx's checker on it."""
    model = builder.to_onnx(optimize=False)
    onnx.checker.check_model(model, full_check=True)
    return model


# -- values


def check_same_values(
    before: Sequence[torch.Tensor],
    after: Sequence[torch.Tensor],
    tolerance: float | None = None,
    signs: bool = False,
    what: str = "",
) -> None:
    """Check dtypes, shapes and values, and with ``signs`` also the signs of zeros."""
    for index, (old, new) in enumerate(zip(before, after, strict=True)):
        label = f"output {index}{what}"
        assert new.dtype == old.dtype, f"{label}: {new.dtype}, it was {old.dtype}"
        assert new.shape == old.shape, f"{label}: {tuple(new.shape)}, it was {tuple(old.shape)}"
        if not old.dtype.is_floating_point:
            assert torch.equal(old, new), f"{label}: {new}, it was {old}"
            continue
        x, y = old.double().numpy(), new.double().numpy()
        assert np.array_equal(np.isnan(x), np.isnan(y)), f"{label}: NaN in {y}, it was {x}"
        bound = max(TOLERANCE if tolerance is None else tolerance, ROUNDING.get(old.dtype, 0.0))
        if tolerance is None and old.dtype == torch.float64:
            bound = ROUNDING[torch.float64]
        np.testing.assert_allclose(y, x, rtol=bound, atol=bound, equal_nan=True, err_msg=label)
        if signs:
            zero = (x == 0) & (y == 0)
            changed = zero & (np.signbit(x) != np.signbit(y))
            assert not changed.any(), f"{label}: the sign of a zero differs: {y}, it was {x}"
