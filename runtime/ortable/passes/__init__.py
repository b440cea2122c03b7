"""Passes over a graph: unused nodes, identities, constant folding, equal nodes, quantized parts,
and `rewrite`, the rules of specs/rewrites. They edit the graph in place and return how much
they changed. Called by `builder`, `exporter` and `backend`.
"""
