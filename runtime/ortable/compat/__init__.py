"""Private or version-dependent interfaces of torch, onnx and onnxruntime, one file per library.

For a new release of a library, change only this package.
"""
