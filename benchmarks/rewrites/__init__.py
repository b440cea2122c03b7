"""What rewrites do to graphs for ONNX Runtime. ``python -m benchmarks.rewrites`` (``__main__``)
runs ``measure`` in a process for each model; ``report`` writes the tables."""
