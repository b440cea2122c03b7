"""Front end of `specs/rewrites`: graph rewrites. `read` parses the YAML, `check` checks pattern,
conditions, replacement and cases against the ONNX schemas, `emit` writes one matcher per rule to
`ortable_generated/rewrites`. Called by `cli` and by the loader of a user's rules.
"""
