"""Converters that a user supplies: dispatchers, custom domains, onnxscript functions and names."""
