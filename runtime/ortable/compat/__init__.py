"""Everything of torch, onnx and onnxruntime that is private or differs between supported versions,
one file a library. Comes in: a need of the house; goes out: one function for it, with the versions
it covers. Called by every package above; a new release of a library is answered here."""
