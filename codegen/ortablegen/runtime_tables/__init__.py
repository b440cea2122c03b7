"""Compile the tables of `specs/runtime` to generated tables and pages of docs.

`kernels` records the kernels of the installed ONNX Runtime, which `function_bodies`, `precision`
and `probes` measure. `optimizers`, `sessions`, `operators` and `foreach` read the other tables.
"""
