"""Conversion to ONNX next to torch.onnx. ``python -m benchmarks.conversion`` (``__main__``) runs
``measure`` in a process for each model, or ``profile``; ``report`` writes the tables."""
