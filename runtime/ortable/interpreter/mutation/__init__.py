"""In-place writes of an FX graph: which may stay, which graphs must be functionalized, what is
written back. In come FX nodes and schemas, out go verdicts and copies; called by `interpreter`,
`export` and `backend.cache`."""
