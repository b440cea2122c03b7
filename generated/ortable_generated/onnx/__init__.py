"""Inference rules of ONNX operators, generated from specs/onnx; ``dispatch`` holds the table."""
