"""Tests of `ortable.builder`."""
