"""The reference pages that are written from the sources: docs/options.md and docs/api.md."""
