"""The front end of to_onnx: its options, the checked request, the program to convert and the
record, and context managers that protect the caller's module, arguments and modes.
"""
