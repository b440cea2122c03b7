"""Operator schemas as frozen data, independent of specs.

`torch` and `registry` hold torch's schemas, `record` those of every supported version, `ranges` the
version ranges that specs write, `onnx` the schemas of ONNX and ONNX Runtime.
"""
