"""Inputs and outputs of the exported model: pytrees, caches, dynamic shapes, names of
dimensions. In come example arguments and `dynamic_shapes`, out go names, specs and dims; called
by `capture` and `to_onnx`."""
