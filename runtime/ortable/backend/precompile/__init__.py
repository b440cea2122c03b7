"""Serialize compiled graphs for torch's caches and precompiled files."""
