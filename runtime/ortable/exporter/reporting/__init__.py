"""Report on an export: validation against the module, the Markdown report, and metadata."""
