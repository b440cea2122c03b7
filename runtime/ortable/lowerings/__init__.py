"""Operators whose conversion needs more than the spec language; ``python:`` in specs names these
functions, and the ``__all__`` of a module lists those that specs may call.
"""
