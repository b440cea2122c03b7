"""Benchmark of quantized KV caches: the time of a token, by length of the text before."""
