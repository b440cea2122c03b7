"""What to_onnx reports: validation against the module, the report, metadata, tables."""
