"""Exported models in the runtimes of others: OpenVINO, tract and onnxruntime-web."""
