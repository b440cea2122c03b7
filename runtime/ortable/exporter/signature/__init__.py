"""Handle inputs and outputs of the model: pytrees, caches, dynamic shapes, dimension names."""
