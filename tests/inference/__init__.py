"""Tests of shape, dtype and content rules."""
