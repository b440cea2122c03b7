"""Tests of packaging, layers and the rules of the repository."""
