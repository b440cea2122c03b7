"""Every conjunct of a rule's `when` is necessary: without it, some sample of the rule fails.

conjuncts.yaml lists the exceptions with reasons. The conjunct `for_cpu()` is tested on graphs
that are not for the CPU.
"""

from __future__ import annotations

import ast
import dataclasses
from functools import cache
from pathlib import Path

import pytest
import yaml

from ortable.builder import GraphBuilder
from ortable.passes.rewrite import rule_selection
from ortable.passes.rewrite.engine import rewrite_graph as run_engine
from ortable.passes.rewrite.rule import Rule
from ortable.passes.weight_quantization import QuantizationRun, WeightOptions
from ortable.testing.graphs import build_graph
from ortable.testing.trial import check_rules, list_targets, select_rules
from ortablegen.language.emit import split_conjuncts
from ortablegen.language.parse import Code
from ortablegen.rewrites.emit import rewrites_text
from ortablegen.rewrites.model import Rewrite, RewriteSample

from .harness import all_rewrites

REWRITES = {rewrite.name: rewrite for rewrite in all_rewrites() if rewrite.when is not None}
EXCEPTIONS_FILE = Path(__file__).with_name("conjuncts.yaml")
CPU = "for_cpu()"


@cache
def load_exceptions() -> dict[str, dict[str, str]]:
    exceptions: dict[str, dict[str, str]] = yaml.safe_load(EXCEPTIONS_FILE.read_text())
    return exceptions


def list_conjuncts(rewrite: Rewrite) -> list[ast.expr]:
    assert rewrite.when is not None
    return split_conjuncts(rewrite.when.expression)


def rules_without(rewrite: Rewrite, conjunct_index: int) -> tuple[Rule, ...]:
    """Return the generated rules of a rewrite whose condition lacks one conjunct."""
    remaining = [
        conjunct
        for index, conjunct in enumerate(list_conjuncts(rewrite))
        if index != conjunct_index
    ]
    when: Code | None = None
    if remaining:
        assert rewrite.when is not None
        condition = ast.BoolOp(ast.And(), remaining) if len(remaining) > 1 else remaining[0]
        when = dataclasses.replace(rewrite.when, body=(ast.Expr(condition),))
    changed = dataclasses.replace(rewrite, when=when)
    namespace: dict[str, object] = {"__name__": f"without_{conjunct_index}_{rewrite.name}"}
    exec(compile(rewrites_text((changed,), rewrite.file), rewrite.file, "exec"), namespace)
    rules = namespace["RULES"]
    assert isinstance(rules, tuple)
    return rules


def has_failing_sample(rewrite: Rewrite, conjunct_index: int) -> bool:
    """Return whether some sample of the rule fails without the conjunct."""
    rules = rules_without(rewrite, conjunct_index)
    conjunct_text = _normalize(ast.unparse(list_conjuncts(rewrite)[conjunct_index]))
    rejected_samples = [sample for sample in rewrite.samples if sample.unchanged is not None]
    rejected_samples.sort(
        key=lambda sample: _normalize(sample.unchanged or "?") not in conjunct_text
    )
    return any(_fails(rewrite, sample, rules) for sample in rejected_samples)


def _normalize(text: str) -> str:
    return "".join(text.split()).replace('"', "'")


def _fails(rewrite: Rewrite, sample: RewriteSample, rules: tuple[Rule, ...]) -> bool:
    for opset, target in list_targets(rewrite, sample):
        try:
            check_rules(rewrite, sample, opset, target, select_rules(rules, target, opset))
        except Exception:  # the matcher may rely on the removed conjunct
            return True
    return False


@pytest.mark.alternates(parts=6)
@pytest.mark.parametrize("name", sorted(REWRITES))
def test_some_sample_fails_without_a_part_of_the_condition(name: str) -> None:
    rewrite = REWRITES[name]
    missing = {
        ast.unparse(part)
        for index, part in enumerate(list_conjuncts(rewrite))
        if ast.unparse(part) != CPU and not has_failing_sample(rewrite, index)
    }
    assert missing == set(load_exceptions().get(name, {}))


def _find_cpu_conjuncts(rewrite: Rewrite) -> list[int]:
    return [index for index, part in enumerate(list_conjuncts(rewrite)) if ast.unparse(part) == CPU]


@pytest.mark.alternates(parts=3)
@pytest.mark.parametrize(
    "name", [name for name, entry in sorted(REWRITES.items()) if _find_cpu_conjuncts(entry)]
)
def test_rules_that_count_on_kernels_leave_other_graphs_alone(name: str) -> None:
    rewrite = REWRITES[name]
    (index,) = _find_cpu_conjuncts(rewrite)
    fired = 0
    for sample in rewrite.samples:
        for opset, target in list_targets(rewrite, sample) if sample.unchanged is None else ():
            rules = select_rules(rule_selection.select_rules(name), target, opset)
            record = run_engine(_build_graph(rewrite, sample, opset, target), rules)
            assert not record.fired
            if CPU in [
                reason for statistics in record.statistics.values() for reason in statistics.refused
            ]:
                fired += _fires(rewrite, sample, opset, target, rules_without(rewrite, index))
    assert fired, f"no sample of {name} is rejected by {CPU} alone"


def _build_graph(
    rewrite: Rewrite, sample: RewriteSample, opset: int, target: str | None
) -> GraphBuilder:
    """Return the graph of a sample for a provider with unknown kernels."""
    builder = build_graph(rewrite, sample, opset, target).builder
    if sample.quantize is not None:
        builder.rounding = QuantizationRun(WeightOptions(sample.quantize, activations="float32"))
    return builder


def _fires(
    rewrite: Rewrite, sample: RewriteSample, opset: int, target: str | None, rules: tuple[Rule, ...]
) -> bool:
    """Return whether the rule fires, or fails, on a graph that is not for the CPU."""
    try:
        graph = _build_graph(rewrite, sample, opset, target)
        return bool(run_engine(graph, select_rules(rules, target, opset)).fired)
    except Exception:  # the rule requires CPU kernels
        return True


def test_the_list_names_rules_and_has_reasons() -> None:
    assert set(load_exceptions()) <= set(REWRITES)
    assert all(reason for reasons in load_exceptions().values() for reason in reasons.values())
