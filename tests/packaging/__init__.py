"""Tests of the frame: packaging, layers, house rules."""
