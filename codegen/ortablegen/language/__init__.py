"""The expression language of all specs: `parse` returns a syntax tree, `emit` Python text.

`check` checks the tree; `kinds` and `narrowing` are the types and facts that it infers. The front
ends (`aten`, `onnx`, `rewrites`) call these modules, each with its own names and functions.
"""
