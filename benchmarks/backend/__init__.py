"""Benchmark of the torch.compile backend: latency, compilation time, overhead of a call."""
