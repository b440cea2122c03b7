"""Every part of a rule's `when` that `and` joins is needed: without it, some case of the rule
fails. Parts that no case can refuse, or none does yet, are listed with the reason in
conjuncts.yaml; that a graph is built for the CPU is tried on graphs that are not."""

from __future__ import annotations

import ast
import dataclasses
from functools import cache
from pathlib import Path

import pytest
import yaml

from ortable.builder import GraphBuilder
from ortable.debug.harness.graphs import build_graph
from ortable.debug.harness.trial import check_rules, list_targets, select_rules
from ortable.passes.rewrite import rule_selection
from ortable.passes.rewrite.engine import rewrite_graph as run_engine
from ortable.passes.rewrite.rule import Rule
from ortable.passes.weight_quantization import QuantizationRun, WeightOptions
from ortablegen.language.emit import split_conjuncts
from ortablegen.language.parse import Code
from ortablegen.rewrites.emit import rewrites_text
from ortablegen.rewrites.model import Rewrite, RewriteCase

from .harness import all_rewrites

REWRITES = {each.name: each for each in all_rewrites() if each.when is not None}
LIST = Path(__file__).with_name("conjuncts.yaml")
CPU = "for_cpu()"


@cache
def unrefused() -> dict[str, dict[str, str]]:
    """By rule and part: why no case of it is refused for that part alone."""
    found: dict[str, dict[str, str]] = yaml.safe_load(LIST.read_text())
    return found


def parts(rewrite: Rewrite) -> list[ast.expr]:
    """What `and` joins in the condition of a rule."""
    assert rewrite.when is not None
    return split_conjuncts(rewrite.when.expression)


def without(rewrite: Rewrite, part: int) -> tuple[Rule, ...]:
    """The rows of a rule whose condition lacks one part."""
    kept = [each for number, each in enumerate(parts(rewrite)) if number != part]
    when: Code | None = None
    if kept:
        assert rewrite.when is not None
        whole = ast.BoolOp(ast.And(), kept) if len(kept) > 1 else kept[0]
        when = dataclasses.replace(rewrite.when, body=(ast.Expr(whole),))
    changed = dataclasses.replace(rewrite, when=when)
    namespace: dict[str, object] = {"__name__": f"without_{part}_{rewrite.name}"}
    exec(compile(rewrites_text((changed,), rewrite.file), rewrite.file, "exec"), namespace)
    rows = namespace["RULES"]
    assert isinstance(rows, tuple)
    return rows


def notices(rewrite: Rewrite, part: int) -> bool:
    """Whether some case of the rule fails without the part."""
    rows = without(rewrite, part)
    words = _squeezed(ast.unparse(parts(rewrite)[part]))
    refusing = [case for case in rewrite.cases if case.unchanged is not None]
    refusing.sort(key=lambda case: _squeezed(case.unchanged or "?") not in words)
    return any(_fails(rewrite, case, rows) for case in refusing)


def _squeezed(text: str) -> str:
    return "".join(text.split()).replace('"', "'")


def _fails(rewrite: Rewrite, case: RewriteCase, rows: tuple[Rule, ...]) -> bool:
    for opset, target in list_targets(rewrite, case):
        try:
            check_rules(rewrite, case, opset, target, select_rules(rows, target, opset))
        except Exception:  # the matcher itself may fail: it reads what the part promised
            return True
    return False


@pytest.mark.alternates(parts=6)
@pytest.mark.parametrize("name", sorted(REWRITES))
def test_some_case_fails_without_a_part_of_the_condition(name: str) -> None:
    rewrite = REWRITES[name]
    missing = {
        ast.unparse(each)
        for number, each in enumerate(parts(rewrite))
        if ast.unparse(each) != CPU and not notices(rewrite, number)
    }
    assert missing == set(unrefused().get(name, {}))


def _for_cpu(rewrite: Rewrite) -> list[int]:
    return [number for number, each in enumerate(parts(rewrite)) if ast.unparse(each) == CPU]


@pytest.mark.alternates(parts=3)
@pytest.mark.parametrize(
    "name", [name for name, each in sorted(REWRITES.items()) if _for_cpu(each)]
)
def test_rules_that_count_on_kernels_leave_other_graphs_alone(name: str) -> None:
    rewrite = REWRITES[name]
    (number,) = _for_cpu(rewrite)
    fired = 0
    for case in rewrite.cases:
        for opset, target in list_targets(rewrite, case) if case.unchanged is None else ():
            rows = select_rules(rule_selection.select_rules(name), target, opset)
            told = run_engine(_graph(rewrite, case, opset, target), rows)
            assert not told.fired
            if CPU in [reason for each in told.statistics.values() for reason in each.refused]:
                fired += _fires(rewrite, case, opset, target, without(rewrite, number))
    assert fired, f"no case of {name} is refused by {CPU} alone"


def _graph(rewrite: Rewrite, case: RewriteCase, opset: int, target: str | None) -> GraphBuilder:
    """The graph of a case, for a provider whose kernels nobody knows."""
    builder = build_graph(rewrite, case, opset, target).builder
    if case.quantize is not None:
        builder.rounding = QuantizationRun(WeightOptions(case.quantize, activations="float32"))
    return builder


def _fires(
    rewrite: Rewrite, case: RewriteCase, opset: int, target: str | None, rows: tuple[Rule, ...]
) -> bool:
    """Whether the rule does something, right or wrong, to a graph that is not for the CPU."""
    try:
        graph = _graph(rewrite, case, opset, target)
        return bool(run_engine(graph, select_rules(rows, target, opset)).fired)
    except Exception:  # it counts on kernels
        return True


def test_the_list_names_rules_and_has_reasons() -> None:
    assert set(unrefused()) <= set(REWRITES)
    assert all(reason for found in unrefused().values() for reason in found.values())
