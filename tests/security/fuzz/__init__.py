"""A fuzzer of spec and rewrite files: entries of this repository with a few changed fields.

Run `python -m tests.security.fuzz`; tests/security/test_spec_files.py runs a few files.
"""
