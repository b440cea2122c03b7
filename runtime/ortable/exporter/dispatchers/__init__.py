"""Converters that a user brings: dispatchers, custom domains, onnxscript functions, operator
names. In come user objects, out go converters with checked signatures; called by `capture` and
`to_onnx`."""
