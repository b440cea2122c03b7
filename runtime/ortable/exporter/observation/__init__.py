"""Infer dimensions from observed calls of a model, and compare a graph with eager at other sizes.

`observe.py` calls this package.
"""
