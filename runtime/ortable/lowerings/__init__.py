"""Python lowerings, for operators that the spec language cannot express.

``python:`` in specs names these functions; the ``__all__`` of a module lists the helpers that
blocks of the spec language may call.
"""
