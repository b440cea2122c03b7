"""Compile the tables of `specs/runtime` to generated tables and pages of docs.

Each module reads one form of table: kernels of ONNX Runtime (`kernels`, which also records them
from the installed package), disabled optimizers, session settings, decomposed operators.
"""
