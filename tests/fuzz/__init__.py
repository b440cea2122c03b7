"""Fuzz tests: random programs made of the specs' samples must equal eager (`make fuzz`).

`catalog` reads the samples, `strategies` builds programs of them, `onnx_programs` builds graphs of
the rewrites' cases, `oracle` and `judge` compare a program with eager, and `shrink` minimizes it.
"""
