"""The parts of `ortable.first_difference`: graphs and calls run in eager and through ortable, the
mismatch, its cause, the line of the specs, and a minimal repro.
"""
