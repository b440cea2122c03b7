"""Explain conversion errors: source lines, unsupported operators, and advice."""
