"""The compiled model: latency, seconds of compilation, overhead of a call. ``python -m
benchmarks.backend`` (``__main__``) runs ``measure`` in a process for each model; ``candidates`` are
what takes turns there, ``report`` writes the tables and the plot."""
