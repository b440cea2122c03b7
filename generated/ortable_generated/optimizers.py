# Generated from specs/runtime/optimizers.yaml by codegen. Do not edit: change the spec, then run `make codegen`.
"""Optimizers of ONNX Runtime that the backend's sessions run without."""

DISABLED: tuple[str, ...] = (
    "ConvMulFusion",
    "DivMulFusion",
    "DoubleQDQPairsRemover",
    "FuseReluClip",
    "GatherToSliceFusion",
    "NoopElimination",
    "Pad_Fusion",
)

DISABLED_FOR: dict[str, tuple[str, ...]] = {
    "float64": ("MatMulScaleFusion",),
    "int8 activations": ("QDQPropagationTransformer",),
}
