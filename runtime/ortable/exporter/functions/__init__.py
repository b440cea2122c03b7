"""Local functions: which parts of a graph become ONNX functions, and their bodies."""
