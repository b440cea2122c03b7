# Generated from specs/aten by codegen. Do not edit: change the spec, then run `make codegen`.
"""Converters of ATen operators; ``dispatch`` holds the tables."""
