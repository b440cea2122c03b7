"""Front end of `specs/rewrites`: graph rewrites. YAML comes in through `read`; `check` holds the
pattern, condition, replacement and cases against the ONNX schemas, `emit` writes one matcher a
rule to `ortable_generated/rewrites`. `cli` calls, and so does the loader of a user's rules."""
