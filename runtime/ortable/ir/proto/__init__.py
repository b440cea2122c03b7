"""Protobuf: `read_model` fills a graph from a ModelProto, `write_model` writes one; `large_model`
and `weight_files` keep large weights in files of their own, written all or not at all
(`atomic_files`); `text` shows a model. Called by `builder` and `exporter`."""
