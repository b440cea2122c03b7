"""Programs that no one thought of: samples of the specs are spliced into random
contexts, and each program must be exact through every front door, or be refused by name.

`catalog` reads the specs, `program` is the model of a program, `contexts` and `strategies` build
programs, `onnx_programs` builds graphs of the rewrites' own cases, `oracle` and `judge` say what
came of one, `shrink` makes it small, `script` writes it as a script that runs by itself, `runner`
and `__main__` do it for thousands (`make fuzz`)."""
