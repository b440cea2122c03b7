"""Samples that are derived by rules from the samples of specs/aten, compared with eager.

``python -m tests.derive`` runs all; ``make test`` runs a rotating part (test_rotating.py).
"""
