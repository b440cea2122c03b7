"""Models that tests and benchmarks share: written here, random weights, nothing downloaded."""
