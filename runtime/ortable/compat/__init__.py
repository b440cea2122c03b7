"""Private or version-dependent interfaces of torch, onnx and onnxruntime, one file per library.

Adapt to a new release of a library here.
"""
