"""Infer dimensions from observed calls of a model, and prove a graph at other sizes. Called by
`observe.py`.
"""
