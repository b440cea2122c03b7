"""Benchmark of one layer of each kind of sequence model."""
