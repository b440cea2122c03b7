"""Front end of `specs/onnx`: inference rules of ONNX operators. YAML comes in; `read` and `check`
hold every entry against the schemas of all supported opsets, `emit` writes
`ortable_generated/onnx`. `cli` calls."""
