"""ONNX Runtime sessions: options, execution providers, devices. In come a model and OrtOptions, out
comes an InferenceSession; called by `lower`, `execute` and `aot`."""
