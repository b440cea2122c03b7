"""Tests of the torch.compile backend."""
