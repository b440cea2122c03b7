"""Option `autotune`: measure ONNX Runtime against torch in the first calls, keep the faster one."""
