"""Benchmark of conversion to ONNX next to torch.onnx."""
