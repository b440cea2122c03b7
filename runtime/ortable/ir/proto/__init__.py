"""Read and write protobuf: `read_model` fills a graph from a ModelProto, `write_model` makes one.

`large_model` and `weight_files` store large weights in separate files, which `atomic_files` writes
atomically; `text` prints a model.
"""
