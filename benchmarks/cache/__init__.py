"""Attention over caches of codes: a token after texts of several lengths."""
