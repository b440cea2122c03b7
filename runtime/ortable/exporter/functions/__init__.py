"""Local functions: which parts of a graph become ONNX functions, and their bodies. In come a
program and a builder, out go FunctionProtos and calls; called by `to_onnx`."""
