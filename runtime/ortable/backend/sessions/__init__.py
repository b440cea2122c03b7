"""Create ONNX Runtime sessions: options, execution providers, devices."""
