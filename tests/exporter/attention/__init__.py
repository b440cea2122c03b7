"""Attention in all its forms and edge cases, compared with torch and ONNX's reference."""
