"""Convert torch.fx graphs to nodes of an `ir.Graph` with tables of converters."""
