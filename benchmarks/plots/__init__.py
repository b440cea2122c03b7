"""Pictures of the recorded figures, for docs/performance.md."""
