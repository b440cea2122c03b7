"""Front end of `specs/onnx`, the inference rules of ONNX operators.

`read` and `check` check every entry against the schemas of all supported opsets, `emit` writes
`ortable_generated/onnx`.
"""
