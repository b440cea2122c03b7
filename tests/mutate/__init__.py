"""Mutation tests, run by ``python -m tests.mutate``; mutants.yaml lists the mutants."""
