"""Benchmark of option `autotune` over many models: no call should be slower than eager."""
