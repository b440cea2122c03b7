"""Front end of `specs/aten`: torch operators, their rules, lowerings and sample calls. YAML comes
in through `read`, `check` reports what is wrong, `emit` writes `ortable_generated/aten`, `coverage`
its tables. `cli` calls, and so does `ortable.load_specs` for a user's file."""
