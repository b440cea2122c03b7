"""ortablegen compiles the YAML specs of ortable: load -> model -> check -> emit.

It imports nothing that imports generated code, so it works while ``generated/`` is empty or broken.
"""
