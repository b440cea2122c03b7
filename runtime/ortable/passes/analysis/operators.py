"""Which ONNX operators do what analyses and words ask about, by key. Data alone; called by the
other analyses and by rewrite words."""

from __future__ import annotations

from ortable.ir.constants import RANDOM

__all__ = ["COMPARES", "MATRIX_PRODUCTS", "MOVES_ELEMENTS", "RANDOM"]

# every element of the result is one of the first input
MOVES_ELEMENTS = frozenset(
    {
        "Expand",
        "Gather",
        "GatherElements",
        "GatherND",
        "Identity",
        "Reshape",
        "Slice",
        "Squeeze",
        "Transpose",
        "Unsqueeze",
    }
)
# comparisons of order: whether the first input is the larger one, and whether equals count
COMPARES = {
    "Greater": (True, False),
    "GreaterOrEqual": (True, True),
    "Less": (False, False),
    "LessOrEqual": (False, True),
}
MATRIX_PRODUCTS = frozenset({"MatMul", "com.microsoft::FusedMatMul"})
