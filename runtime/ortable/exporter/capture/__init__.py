"""From a module to an ExportedProgram: strategies, tracing, rolled loops, patches, guards, and
programs without writes. In come a module and its arguments, out comes a `Program`; called by
`to_onnx`."""
`to_onnx`."""
