"""Choose the parts of a graph that become ONNX functions, and build their bodies."""
