"""Passes over a graph: unused nodes, identities, constant folding, equal nodes, quantized parts,
and `rewrite`, the rules of specs/rewrites. In comes a graph, out goes the same graph and how much
was removed or rewritten. Called by `builder`, `exporter` and `backend`."""
