"""What follows for a result from how it is made: one module an analysis. In come a graph and the
name of a result, out goes a fact, or that nobody knows. Called by rewrite words and by matchers."""
