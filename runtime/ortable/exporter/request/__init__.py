"""What the user asked of to_onnx and what is kept of it: options, the program to convert, the
record, argument copies, the state to put back. In come arguments, out go typed records; called
by all of `export`."""
