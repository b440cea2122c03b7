"""Run a compiled graph: feeds, weights, the generated source of the call, and results."""
