"""From a torch.fx graph to the nodes of a graph of `ir`. In come FX graphs with metadata and the
tables of converters, out go nodes, records and the errors that name every missing operator. Called
by `exporter` and `backend.lower`."""
