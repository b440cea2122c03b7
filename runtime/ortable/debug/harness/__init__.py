"""Tries the cases of spec files: each entry against eager, each rewrite on the graph that it is
for. `ortable specs test FILE` calls it for a user's file, the repository's tests for its own."""
