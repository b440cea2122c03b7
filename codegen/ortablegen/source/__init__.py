"""Read and write files for every front end.

`yaml_source` parses ``specs/*.yaml`` into nodes with positions, `diagnostics` formats errors as
clang does, `writer` writes the generated tree. The package does not interpret entries; `cli` and
the `read` module of each front end call it.
"""
