"""Tests of `ortable.cli`."""
