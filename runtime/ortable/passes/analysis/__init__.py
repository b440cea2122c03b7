"""Dataflow analyses over the graph, one module each: they map a result to a fact or to unknown."""
