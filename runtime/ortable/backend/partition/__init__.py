"""Which operators torch runs: placement, partition of the graph, absorption of small parts,
draws, fallback. In comes an FX graph, out comes a host graph that calls converted parts; called
by `aot`."""
