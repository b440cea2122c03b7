"""Everything of torch, onnx and onnxruntime that is private or differs between supported
versions, one file a library. A new release of a library is answered here."""
