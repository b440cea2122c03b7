"""Front end of `specs/rewrites`: graph rewrites.

`read` parses the YAML, `check` checks pattern, conditions, replacement and samples against the ONNX
schemas, `emit` writes a matcher for each rule to `ortable_generated/rewrites`. `cli` and the loader
of a user's rules call them.
"""
