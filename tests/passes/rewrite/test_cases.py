"""Every case of every rewrite: the rule alone, all rules together, and no rule that undoes
another."""

from __future__ import annotations

import pytest

from ortable.debug.harness.trial import (
    RewriteTrial,
    all_rules,
    check_case,
    default_rules,
    list_targets,
    select_rewrite_rules,
)
from ortablegen.rewrites.model import Rewrite

from .harness import all_rewrites, shape_of_graph

REWRITES = {rewrite.name: rewrite for rewrite in all_rewrites()}


@pytest.fixture(params=sorted(REWRITES))
def entry(request: pytest.FixtureRequest) -> Rewrite:
    """Each rewrite of the specs."""
    return REWRITES[request.param]


@pytest.mark.alternates(parts=2)
def test_cases_alone(entry: Rewrite) -> None:
    """The rule fires where it says so and keeps values, dtypes, shapes and names; elsewhere it
    gives the reason."""
    tried = 0
    for case in entry.cases:
        for opset, target in list_targets(entry, case):
            with _told(f"{case.span}, opset {opset}, target {target}"):
                check_case(entry, case, opset, target)
            tried += 1
    assert tried >= len(entry.cases)


@pytest.mark.alternates(parts=3)
def test_cases_with_all_rules(entry: Rewrite) -> None:
    """Whatever the other rules do to the graph, it computes the same, and a second run finds
    nothing to do."""
    for case in entry.cases:
        opset, target = list(list_targets(entry, case))[-1]
        for rules in (default_rules(target, opset), all_rules(target, opset)):
            with _told(f"{case.span}, opset {opset}, target {target}"):
                trial = RewriteTrial(entry, case, opset, target)
                trial.apply(rules)
                trial.compare()
                trial.builder.constant_folding()  # weights that rules have computed
                again = trial.apply(rules)
                assert not again.fired, f"fires again: {again.counts()}"


def test_no_rule_undoes_another(entry: Rewrite) -> None:
    """After the rule, no other rule alone makes the graph what it was."""
    for case in entry.cases:
        if case.unchanged is not None:
            continue
        opset, target = list(list_targets(entry, case))[-1]
        trial = RewriteTrial(entry, case, opset, target)
        before = shape_of_graph(trial.builder)
        trial.apply(select_rewrite_rules(entry.name, target, opset))
        after = shape_of_graph(trial.builder)
        assert after != before, f"{case.span}: the graph is what it was"
        others = trial.apply(all_rules(target, opset, but=entry.name)).counts()
        for name in others:
            trial = RewriteTrial(entry, case, opset, target)
            trial.apply(select_rewrite_rules(entry.name, target, opset))
            trial.apply(select_rewrite_rules(name, target, opset))
            undone = shape_of_graph(trial.builder) == before
            assert not undone, f"{case.span}: {name} undoes {entry.name}"


def test_every_rule_has_a_case_that_fires_and_one_that_does_not(entry: Rewrite) -> None:
    fires = [case for case in entry.cases if case.unchanged is None]
    assert fires, f"{entry.span}: no case shows what {entry.name} does"
    if entry.when is not None:
        assert len(fires) < len(entry.cases), f"{entry.span}: no case has unchanged:"


class _told:
    """Says where the case stands that fails."""

    def __init__(self, where: str) -> None:
        self.where = where

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is not None:
            error.add_note(f"case at {self.where}")
