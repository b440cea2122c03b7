"""Draw ONNX graphs with graphviz, or write them for Model Explorer.

`read` converts a model to a `scene`: boxes in nested groups (see `modules`), and edges between
boxes. `explorer` writes the whole scene for Model Explorer. For graphviz, `view` folds repeated
blocks and selects the open groups, and `dot` writes the view. `draw` has the public functions.
"""
