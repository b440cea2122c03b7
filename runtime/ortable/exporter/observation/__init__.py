"""Infer dimensions from observed calls of a model, and prove a graph at other sizes.

`observe.py` calls this package.
"""
