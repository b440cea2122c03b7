"""Plots of the recorded results, for docs/performance.md."""
