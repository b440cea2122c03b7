"""Export PyTorch models to ONNX: `export`, `to_onnx`, their options and custom converters.

Users and `ortable.cli` call this package.
"""
