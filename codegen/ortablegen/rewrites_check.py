"""Checks rewrites: names, patterns, what they read and return, cases."""

from __future__ import annotations

from ortablegen.diagnostics import Diagnostics
from ortablegen.rewrites_model import Rewrite
from ortablegen.rewrites_nodes import PatternProblem, unreachable
from ortablegen.rewrites_pattern import read_patterns


def check_rewrites(rewrites: tuple[Rewrite, ...], diagnostics: Diagnostics) -> None:
    """Report everything wrong with ``rewrites``."""
    for rewrite in rewrites:
        try:
            patterns = read_patterns(rewrite.pattern)
            for pattern in patterns:
                lost = unreachable(pattern)
                if lost is not None:
                    raise PatternProblem(lost.call, f"{lost.key} shares no input with the others")
        except PatternProblem as problem:
            diagnostics.error(rewrite.pattern.at(problem.node), str(problem), fix=problem.fix)
