"""Benchmark of rewrites: their effect on graphs for ONNX Runtime."""
