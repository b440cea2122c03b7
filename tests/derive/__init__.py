"""Samples derived by rule from the hand-written samples of specs/aten, judged by eager.

In: the entries of specs/aten. Out: a report by entry, derived sample and outcome. Run with
``python -m tests.derive``; ``make test`` runs a rotating part (test_rotating.py).
"""
