"""Compiled graphs that go from process to process: as keys of a cache, or whole, as bytes that need
nothing but ortable, torch and onnxruntime."""
