"""Operator schemas of the installed libraries as frozen data: torch's registry (`torch`), onnx.defs
and ONNX Runtime's own operators (`onnx`). A name, a key or an opset comes in, a schema goes out;
readers and checkers of every front end ask, nothing is remembered about specs."""
