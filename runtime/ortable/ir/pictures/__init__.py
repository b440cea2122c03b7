"""Pictures of ONNX graphs. In comes a model, out go dot text, what graphviz draws of it, and a page
of HTML; called by users (`ortable.draw`), by the exporter's programs and by the shell.

`read` makes a `scene` of a model: boxes in nested groups (`modules`), and the edges between them.
`fold` finds blocks that repeat, `view` chooses what is open, `dot` and `page` write it."""
