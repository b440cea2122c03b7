"""Compiled graphs for other processes: what torch's caches and precompiled files store."""
