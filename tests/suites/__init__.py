"""Suites that others wrote, each one command with a list of exceptions that only shrinks: the node
tests of ONNX (`node_tests`), modules, optimizers, custom and higher-order operators of torch's own
test tools (`module_tests`)."""
