"""Tests of the debugging tools."""
