"""Spec files and files of rewrites that are nearly right: entries of this repository with one or a
few fields changed to what an attacker, a typist or a broken editor would write. `python -m
tests.security.fuzz`; tests/security/test_spec_files.py runs a few."""
