"""What to_onnx tells of its work: report, validation against the module, metadata, tables. In
come a program, a record and a model, out go texts and verdicts; called by `capture` and
`to_onnx`."""
