"""Capture a module as an `ExportedProgram` and prepare it for conversion.

The package holds the strategies, tracing, loop capture, workarounds, guards and functionalization.
`to_onnx` calls `sources.make_program`.
"""
