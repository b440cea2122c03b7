"""Compile the YAML specs of ortable to the Python modules in ``generated/``.

The package imports no generated code, so it works while ``generated/`` is empty or broken.
"""
