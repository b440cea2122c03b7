"""What is said of a node that cannot be converted: its origin in the user's model, the
operator's key, the unsupported operators with the YAML to start from. Called by `interpreter`,
`export`, `backend`."""
