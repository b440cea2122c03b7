"""The runnable examples of the documentation, with their outcomes asserted."""
