"""Operator schemas as frozen data: torch's (`torch`, `registry`; `record` holds every supported
version, `ranges` are the version ranges of specs), ONNX's and ONNX Runtime's (`onnx`). Independent
of specs.
"""
