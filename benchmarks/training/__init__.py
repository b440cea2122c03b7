"""Benchmark of training steps next to eager."""
