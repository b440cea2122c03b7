"""Which operators torch runs: placement, partition of the graph, absorption of small parts,
draws, fallback."""
