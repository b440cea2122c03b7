"""What ortable costs, measured next to eager, inductor and torch.onnx: one package a topic, run as
``python -m benchmarks.backend`` from the root of the repository; see README.md beside this file.

``models`` are those of benchmarks and tests, ``measure`` takes times, ``sessions`` runs ONNX
graphs, ``report`` writes Markdown. The topics import these; nothing here imports tests.
"""
