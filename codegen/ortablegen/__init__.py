"""Compile the YAML specs of ortable: load, model, check, emit.

The package imports no generated code, so it works while ``generated/`` is empty or broken.
"""
