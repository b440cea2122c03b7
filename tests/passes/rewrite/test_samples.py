"""Every sample of every rewrite: the rule alone, with all rules, and without cycles of rules."""

from __future__ import annotations

import pytest

from ortable.testing.trial import (
    RewriteTrial,
    all_rules,
    check_sample,
    default_rules,
    list_targets,
    select_rewrite_rules,
)
from ortablegen.rewrites.model import Rewrite

from .harness import all_rewrites, shape_of_graph

REWRITES = {rewrite.name: rewrite for rewrite in all_rewrites()}


@pytest.fixture(params=sorted(REWRITES))
def entry(request: pytest.FixtureRequest) -> Rewrite:
    return REWRITES[request.param]


@pytest.mark.alternates(parts=2)
def test_samples_alone(entry: Rewrite) -> None:
    """The rule fires only in its samples and preserves results; rejections give their reason."""
    trial_count = 0
    for sample in entry.samples:
        for opset, target in list_targets(entry, sample):
            with _SampleNote(f"{sample.span}, opset {opset}, target {target}"):
                check_sample(entry, sample, opset, target)
            trial_count += 1
    assert trial_count >= len(entry.samples)


@pytest.mark.alternates(parts=3)
def test_samples_with_all_rules(entry: Rewrite) -> None:
    """All rules together preserve the results, and a second run fires no rule."""
    for sample in entry.samples:
        opset, target = list(list_targets(entry, sample))[-1]
        for rules in (default_rules(target, opset), all_rules(target, opset)):
            with _SampleNote(f"{sample.span}, opset {opset}, target {target}"):
                trial = RewriteTrial(entry, sample, opset, target)
                trial.apply(rules)
                trial.compare()
                trial.builder.constant_folding()  # fold weights that rules have computed
                record = trial.apply(rules)
                assert not record.fired, f"rules fire in a second run: {record.counts()}"


def test_no_rule_undoes_another(entry: Rewrite) -> None:
    """No other rule restores the graph from before the rule."""
    for sample in entry.samples:
        if sample.unchanged is not None:
            continue
        opset, target = list(list_targets(entry, sample))[-1]
        trial = RewriteTrial(entry, sample, opset, target)
        before = shape_of_graph(trial.builder)
        trial.apply(select_rewrite_rules(entry.name, target, opset))
        after = shape_of_graph(trial.builder)
        assert after != before, f"{sample.span}: the graph is unchanged"
        other_rules = trial.apply(all_rules(target, opset, but=entry.name)).counts()
        for name in other_rules:
            trial = RewriteTrial(entry, sample, opset, target)
            trial.apply(select_rewrite_rules(entry.name, target, opset))
            trial.apply(select_rewrite_rules(name, target, opset))
            is_undone = shape_of_graph(trial.builder) == before
            assert not is_undone, f"{sample.span}: {name} undoes {entry.name}"


def test_every_rule_has_a_sample_that_fires_and_one_that_does_not(entry: Rewrite) -> None:
    firing_samples = [sample for sample in entry.samples if sample.unchanged is None]
    assert firing_samples, f"{entry.span}: {entry.name} fires in no sample"
    if entry.when is not None:
        assert len(firing_samples) < len(entry.samples), f"{entry.span}: no sample has unchanged:"


class _SampleNote:
    """Add the location of the failing sample to an exception."""

    def __init__(self, location: str) -> None:
        self.location = location

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is not None:
            error.add_note(f"sample at {self.location}")
