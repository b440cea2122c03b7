"""Test the cases of spec files: entries against eager, rewrites against the original graph.

`ortable specs test FILE` runs a user's file, the repository's tests its own.
"""
