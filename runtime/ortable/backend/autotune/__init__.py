"""Option `autotune`: time ONNX Runtime and torch in the first calls and keep the faster one."""
