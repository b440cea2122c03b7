"""A call: feeds, weights, the generated source of the call, results."""
