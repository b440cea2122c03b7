"""Tests of `ortable.ir`."""
