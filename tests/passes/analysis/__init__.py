"""Tests of `ortable.passes.analysis`."""
