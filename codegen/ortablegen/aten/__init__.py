"""Front end of `specs/aten`: torch operators, their rules, lowerings and sample calls.

`read` parses the YAML, `check` reports errors, `emit` writes `ortable_generated/aten`, `coverage`
its tables. `cli` and `ortable.load_specs` (for a user's file) call them.
"""
