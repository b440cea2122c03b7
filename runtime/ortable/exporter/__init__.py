"""From a PyTorch model to an ONNX model: export and to_onnx, their options, and the converters that
a caller may add. Called by users and by `ortable.cli`; `backend` reads its options."""
