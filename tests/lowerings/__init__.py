"""Tests of the Python lowerings, and of spec cases that no single sample call covers."""
