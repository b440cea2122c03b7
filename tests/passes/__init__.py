"""Tests of `ortable.passes`."""
