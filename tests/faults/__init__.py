"""Tests that inject faults: interrupts, failing file operations, killed processes."""
