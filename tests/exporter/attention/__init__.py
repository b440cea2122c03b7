"""Every form of attention that the tables can write, in the corners where kernels, ONNX and torch
disagree."""
