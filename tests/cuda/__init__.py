"""Tests of the CUDA provider on a GPU: `make gpu`."""
