"""What real calls of a model say of its dimensions, and whether a graph is right at other sizes. In
come calls, out go names of dimensions, calls of other sizes, and the rows of a proof. Called by
`observe.py`."""
