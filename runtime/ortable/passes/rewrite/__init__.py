"""Graph rewrites: the engine that runs generated matchers over a graph."""
