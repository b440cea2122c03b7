"""Operator schemas as frozen data: those of torch (`torch`, `registry`; `record` holds every
supported version, `ranges` are what specs say of versions), of ONNX and of ONNX Runtime (`onnx`).
A name, a key or an opset comes in, a schema goes out; readers and checkers of every
front end ask, nothing is remembered about specs."""
