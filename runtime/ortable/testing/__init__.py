"""Test the samples of spec files: entries against eager, rewrites against the original graph.

`ortable specs test FILE` tests a user's file; the tests of the repository test its own spec files.
"""
