"""Third-party test suites: ONNX's node tests, torch's modules, optimizers and operators."""
