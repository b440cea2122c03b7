"""Benchmark on CUDA: inference and training next to eager, inductor and a bare session."""
