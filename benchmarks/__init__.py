"""Benchmarks of ortable next to eager, inductor and torch.onnx, in one package per topic.

Run a topic from the root of the repository: ``python -m benchmarks.backend``; see README.md.
The topics share ``models`` (also used by the tests), ``measure`` (timing), ``sessions`` (ONNX
Runtime sessions) and ``report`` (Markdown). Nothing here imports tests.
"""
