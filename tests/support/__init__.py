"""Which versions of Python, torch, onnx and onnxruntime ortable ran on: an environment made as a
user makes it, what runs in it, and the page of docs that says so. Called by ``make support``."""
