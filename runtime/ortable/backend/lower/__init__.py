"""From an FX graph to a model with roles: inputs, outputs, views, strides, conversion. In come a
GraphModule and example inputs, out comes a `CompiledGraph`; called by `cache`, `partition` and
`aot`."""
