"""The CUDA provider for real, where a GPU is present: `make gpu`."""
