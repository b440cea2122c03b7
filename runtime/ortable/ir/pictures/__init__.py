"""Draw ONNX graphs with graphviz, or write them for Model Explorer.

`read` makes a `scene` of a model: boxes in nested groups (`modules`), and the edges between them.
`explorer` writes all of it; `view` folds blocks that repeat and chooses what is open, and `dot`
writes that. `draw` is for users, the exporter's programs and the shell."""
