"""Export and run of gigabytes of weights. ``python -m benchmarks.large_model`` (``__main__``) runs
each step of ``measure`` in a process of its own."""
