"""Protobuf: `read_model` fills a graph from a ModelProto, `write_model` writes one.

`large_model` and `weight_files` store large weights in files of their own, which `atomic_files`
writes all or not at all; `text` prints a model.
"""
