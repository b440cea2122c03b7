"""Capture a module as an `ExportedProgram` and prepare it for conversion: strategies, tracing,
loop capture, workarounds, guards, functionalization. `to_onnx` calls `sources.make_program`.
"""
