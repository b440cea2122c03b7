# Generated from specs/runtime/operator_cost.yaml by codegen. Do not edit: change the spec, then run `make codegen`.
"""Operators that cost more than torch's kernels, from a size on."""

COSTS: dict[str, dict[str, tuple[int, int]]] = {
    "aten::mv": {"float32": (67000, 31)},
    "aten::mvlgamma": {"float32": (1500, 34)},
    "aten::searchsorted.Scalar": {"float32": (40000, 432)},
    "aten::sign": {"float32": (250000, 6)},
    "aten::softplus": {"float32": (12000, 5)},
    "aten::softplus_backward": {"float32": (150000, 3)},
}
