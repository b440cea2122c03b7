"""Option `autotune`, over many models: that no call is slower than eager's. ``python -m
benchmarks.autotune`` (``__main__``) runs ``measure`` in a process for each model; ``report`` writes
the table."""
