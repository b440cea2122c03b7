"""Find the part of a compilation that is wrong: `ortable.bisect`."""
