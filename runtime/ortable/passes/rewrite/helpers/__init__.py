"""The words of specs/rewrites, by topic; ``__all__`` of a module lists them. In come a matcher
or a graph and what a pattern captured, out goes a fact, None, or a name. Called by generated
matchers."""
