"""Decide which operators torch runs: placement, partitions, small parts, RNG, fallback."""
