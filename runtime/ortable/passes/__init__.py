"""Graph passes: cleanup, constant folding, merging of equal nodes, QDQ and rewrite rules.

The passes edit a graph in place and return the number of changes. `rewrite` applies the rules of
specs/rewrites. Called by `builder`, `exporter` and `backend`.
"""
