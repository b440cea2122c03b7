"""Python numbers in an FX graph: `symbolic` finds those that are dimensions, `scalars` makes
0-d results of the others. In come FX nodes, out go dims or names of results; called by
`interpreter` and `backend.lower`."""
