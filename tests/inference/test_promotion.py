"""Type promotion equals torch's for all dtypes, priorities and promotion kinds.

The priorities are those of tensors, 0-d tensors and Python numbers.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
import torch
from torch._prims_common import ELEMENTWISE_TYPE_PROMOTION_KIND as KINDS
from torch._prims_common import elementwise_dtypes

from ortable import dtypes
from ortable.builder import GraphBuilder
from ortable.errors import UnsupportedCase
from ortable.inference import promote_types
from ortable.prelude.promotion import computation_dtype, promoted_dtype, result_type

REAL = (
    torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16,
    torch.bfloat16, torch.float32, torch.float64,
)  # fmt: skip
ALL = (*REAL, torch.complex64, torch.complex128)
NUMBERS = (True, 3, 2.5, 1 + 2j)
TORCH_KINDS = {
    "default": KINDS.DEFAULT,
    "int_to_float": KINDS.INT_TO_FLOAT,
    "bool_to_long": KINDS.BOOL_TO_LONG,
    "always_bool": KINDS.ALWAYS_BOOL,
    "complex_to_float": KINDS.COMPLEX_TO_FLOAT,
    "pow": KINDS.DEFAULT,
    "no_opmath": KINDS.NO_OPMATH,
    "no_bool": KINDS.DEFAULT,
}


def _make_operands() -> list[tuple[str, Any]]:
    """Return a tensor and a 0-d tensor of each dtype, and a Python number of each kind."""
    vectors = [(f"{dtype}[2]".removeprefix("torch."), torch.ones(2, dtype=dtype)) for dtype in ALL]
    scalars = [(f"{dtype}[]".removeprefix("torch."), torch.ones((), dtype=dtype)) for dtype in ALL]
    return [*vectors, *scalars, *((repr(number), number) for number in NUMBERS)]


def _add_inputs(builder: GraphBuilder, operands: tuple[Any, ...]) -> list[Any]:
    return [
        builder.make_tensor_input(f"x{i}", dtypes.from_torch(value.dtype), tuple(value.shape))
        if isinstance(value, torch.Tensor)
        else value
        for i, value in enumerate(operands)
    ]


def test_pairs_of_dtypes_promote_as_in_torch() -> None:
    for left, right in product(ALL, ALL):
        promoted = promote_types(dtypes.from_torch(left), dtypes.from_torch(right))
        assert dtypes.to_torch(promoted) == torch.promote_types(left, right), (left, right)


def test_tensors_zero_dimensional_tensors_and_numbers_have_torch_s_priorities() -> None:
    for (left_name, left), (right_name, right) in product(_make_operands(), _make_operands()):
        if not isinstance(left, torch.Tensor) and not isinstance(right, torch.Tensor):
            continue
        builder = GraphBuilder(18)
        expected = torch.result_type(left, right)
        if expected == torch.complex32:
            with pytest.raises(UnsupportedCase, match="complex32"):
                result_type(builder, _add_inputs(builder, (left, right)))
            continue
        result = result_type(builder, _add_inputs(builder, (left, right)))
        assert dtypes.to_torch(result) == expected, f"{left_name} with {right_name}"


@pytest.mark.parametrize("kind", sorted(TORCH_KINDS))
def test_promotion_kinds_equal_torch_s(kind: str) -> None:
    """Result dtypes equal torch's; computation dtypes do, except for half precision.

    ONNX operators round once, so half precision inputs are not widened.
    """
    for (left_name, left), (right_name, right) in product(_make_operands(), _make_operands()):
        if not isinstance(left, torch.Tensor) and not isinstance(right, torch.Tensor):
            continue
        in_torch, expected = elementwise_dtypes(left, right, type_promotion_kind=TORCH_KINDS[kind])
        if torch.complex32 in (torch.result_type(left, right), expected, in_torch):
            continue  # refused, see the test above
        builder = GraphBuilder(18)
        names = _add_inputs(builder, (left, right))
        case = f"{kind}: {left_name} with {right_name}"
        if kind != "pow":
            promoted = promoted_dtype(builder, kind, *names)
            assert dtypes.to_torch(promoted) == expected, case
        inner = dtypes.to_torch(computation_dtype(builder, kind, names))
        half = {torch.float16, torch.bfloat16}
        if kind not in ("pow", "bool_to_long", "always_bool") and inner not in half:
            assert inner == in_torch or in_torch in (torch.float32, torch.complex64), case
