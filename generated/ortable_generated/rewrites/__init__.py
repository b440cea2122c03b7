# Generated from specs/rewrites by codegen. Do not edit: change the spec, then run `make codegen`.
"""Matchers and makers of graph rewrites; ``dispatch`` holds the table."""
