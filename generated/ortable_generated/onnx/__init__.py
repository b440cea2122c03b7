"""Inference rules and traits of ONNX operators, generated from specs/onnx; ``dispatch`` holds the
table of rules, ``traits`` the sets of operators."""
