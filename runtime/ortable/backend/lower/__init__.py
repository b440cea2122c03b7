"""Lower one FX graph to an ONNX model, with the roles of its inputs and outputs."""
