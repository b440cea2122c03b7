"""Benchmark of exporting and running a model with gigabytes of weights."""
