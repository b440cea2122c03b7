"""A call: feeds, weights, the generated source of the call, results. In come torch tensors, out
go torch tensors; called by the compiled function that `aot` returns."""
