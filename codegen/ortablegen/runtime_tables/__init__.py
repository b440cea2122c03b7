"""Tables of `specs/runtime`, each with its own form: what ONNX Runtime has kernels for (`kernels`,
which also reads them from the installed package), optimizers that sessions run without, operators
that torch decomposes. YAML comes in, generated tables and pages of docs go out; `cli` calls."""
