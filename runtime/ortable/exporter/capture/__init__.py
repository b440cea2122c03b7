"""From a module to an ExportedProgram: strategies, tracing, rolled loops, patches, guards,
functionalization. In come a module and its arguments, out comes a `Program`; called by
`to_onnx`."""
