"""Generators of the reference pages docs/options.md and docs/api.md."""
