"""Explain errors about nodes that cannot be converted: the origin in the user's model, the
operator's key, and the unsupported operators with a draft of their YAML entries.
"""
