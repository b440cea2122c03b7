"""Training steps next to eager's. ``python -m benchmarks.training`` (``__main__``) runs ``measure``
and prints; ``report`` has the operators of profiled sessions."""
