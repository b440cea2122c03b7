"""Benchmark of single operators: time and memory at two sizes, next to torch's kernels."""
