"""Tests of to_onnx."""
