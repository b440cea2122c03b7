"""Python numbers in an FX graph: `symbolic` finds those that are dimensions, `numbers` converts
operators and functions on them. In come FX nodes, out go dims or names of results; called by
`interpreter` and `backend.lower`."""
