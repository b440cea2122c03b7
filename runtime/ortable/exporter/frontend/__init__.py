"""Front end of to_onnx: options, checked requests, captured programs, and records.

The package also has the context managers that protect the caller's module, arguments and modes.
"""
