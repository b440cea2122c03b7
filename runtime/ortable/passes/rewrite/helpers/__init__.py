"""Helper functions that the rules of specs/rewrites call, by topic.

``__all__`` of a module lists its helpers. They map results of a match to facts, None, or names of
new results.
"""
