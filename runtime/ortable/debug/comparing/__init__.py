"""The parts of `ortable.first_difference`: comparison, diagnosis, source lines, minimal repro."""
