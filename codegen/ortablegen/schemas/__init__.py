"""Operator schemas as frozen data, independent of specs.

`torch` parses torch's schemas and `registry` looks them up, in the installed torch or in the record
of all supported versions, a file that `record` reads and writes. `ranges` are the version ranges of
specs; `onnx` has the schemas of ONNX and ONNX Runtime.
"""
