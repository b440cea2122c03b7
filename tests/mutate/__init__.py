"""Small faults put into the code on purpose, and the tests that must notice each of them:
``python -m tests.mutate``. The faults are the lines of mutants.yaml."""
