"""Tries a rule on one of its samples: the graph before and after, at every opset and target that
the rule is for, run on several inputs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import onnx
import torch

from ortable import dtypes
from ortable.builder import GraphBuilder
from ortable.ir.versions import OLDEST_OPSET, ORT_MAX_OPSET, TARGETS
from ortable.passes.rewrite import rule_selection
from ortable.passes.rewrite.engine import rewrite_graph as run_engine
from ortable.passes.rewrite.rule import Rule
from ortable.passes.weight_quantization import QuantizationRun, WeightOptions
from ortable_generated.kernels import KERNELS_CPU
from ortablegen.rewrites.model import Rewrite, RewriteCase

from .graphs import Built, build
from .runs import Runner, checked_model, declared, same_declarations, same_inference, same_values
from .values import concrete_shape, draw, is_free, several_sizes

DRAWS = 2
SPECIAL_DRAWS = 4  # with infinities, NaN and both zeros


# -- which rules, where


def _fitting(names: str, target: str | None, opset: int) -> list[Rule]:
    return fitting(rule_selection.select_rules(names), target, opset)


def fitting(rules: Iterable[Rule], target: str | None, opset: int) -> list[Rule]:
    """Those of some rows that are for the target and the opset."""
    return [
        rule
        for rule in rules
        if rule.target in ("", target) and rule.opsets[0] <= opset <= rule.opsets[1]
    ]


def rules_of(name: str, target: str | None, opset: int, given: str = "all") -> list[Rule]:
    """Rows of the rule that are for the target and the opset; ``given`` is a set of rules, or the
    path of a user's file."""
    return [rule for rule in _fitting(given, target, opset) if rule.name == name]


def default_rules(target: str | None, opset: int) -> list[Rule]:
    """What a user gets who asks for nothing."""
    return _fitting("default", target, opset)


def every_rule(target: str | None, opset: int, but: str = "") -> list[Rule]:
    """Those that are off by default too."""
    return [rule for rule in _fitting("all", target, opset) if rule.name != but]


def places(
    rewrite: Rewrite, case: RewriteCase, given: str = "all"
) -> Iterator[tuple[int, str | None]]:
    """Opsets and targets that a case is tried at: both ends of what the rule is for."""
    for target in TARGETS:
        if rewrite.target not in (None, target):
            continue
        known = [
            opset
            for opset in range(OLDEST_OPSET, ORT_MAX_OPSET + 1)
            if rules_of(rewrite.name, target, opset, given)
        ]
        wanted = known if case.opset is None else [case.opset]
        for opset in sorted({*wanted[:1], *wanted[-1:]}):
            yield opset, target


def built(rewrite: Rewrite, case: RewriteCase, opset: int, target: str | None) -> Built:
    """The graph of the case; for ONNX Runtime, replacements must have kernels."""
    made = build(rewrite, case, opset, target)
    if target == "onnxruntime":
        made.builder.kernel_table = KERNELS_CPU
    return made


# -- trying


class Trial:
    """A graph before and after; ``apply`` runs rules on it and compares."""

    def __init__(self, rewrite: Rewrite, case: RewriteCase, opset: int, target: str | None) -> None:
        self.case = case
        self.built = built(rewrite, case, opset, target)
        self.builder = self.built.builder
        if case.rounding is not None:
            self.builder.rounding = QuantizationRun(
                WeightOptions(case.rounding, activations="float32")
            )
        self.before = checked_model(self.builder)
        self.outputs = declared(self.builder.outputs)
        self.inputs = declared(self.builder.inputs)
        # only what is computed again in another way may lose the sign of a zero, and ONNX Runtime's
        # Where loses some
        exact = rewrite.stage in ("simplify", "arrange") and case.tolerance is None
        self.signs = exact and all(node.op_type != "Where" for node in self.builder.nodes)

    def apply(self, rules: Iterable[Rule]) -> Any:
        """Runs the rules; the record of what was done."""
        record = run_engine(self.builder, rules)
        self.builder.remove_unused()
        return record

    def compare(self) -> None:
        """The graph as it is says and computes what it did before."""
        same_declarations(self.inputs, declared(self.builder.inputs))
        same_declarations(self.outputs, declared(self.builder.outputs))
        after = checked_model(self.builder)
        assert list(after.graph.output) == list(self.before.graph.output)
        same_inference(self.before, after)
        old, new = Runner(self.before), Runner(after)
        generator = torch.Generator().manual_seed(0)
        for place, sizes in enumerate(several_sizes(self.built.symbols)):
            for number in range(DRAWS + SPECIAL_DRAWS):
                special = number >= DRAWS
                feeds = self.feeds(sizes, generator, special)
                try:
                    wanted = old(feeds)
                except Exception:
                    if place == 0:
                        raise
                    break  # the graph itself does not run at these sizes
                what = f" ({sizes or 'static'}{', special values' if special else ''})"
                same_values(wanted, new(feeds), self.case.tolerance, self.signs, what)

    def feeds(
        self, sizes: Mapping[str, int], generator: torch.Generator, special: bool
    ) -> dict[str, torch.Tensor]:
        """A tensor for each input."""
        zeros = not _divides_integers(self.builder)
        return {
            name: draw(
                sample,
                concrete_shape(sample, sizes),
                generator,
                special and is_free(sample),
                zeros,
            )
            for name, sample in self.built.inputs.items()
        }


def _divides_integers(builder: GraphBuilder) -> bool:
    """ONNX Runtime stops the process at an integer division by zero."""
    return any(
        node.op_type in ("Div", "Mod") and dtypes.is_int_type(builder.values[node.inputs[1]].dtype)
        for node in builder.nodes
    )


def check_case(
    rewrite: Rewrite, case: RewriteCase, opset: int, target: str | None, given: str = "all"
) -> None:
    """The rule alone on its case: it fires and nothing else changes, or it refuses and says why."""
    rules = rules_of(rewrite.name, target, opset, given)
    check_rules(rewrite, case, opset, target, rules)


def check_rules(
    rewrite: Rewrite, case: RewriteCase, opset: int, target: str | None, rules: Sequence[Rule]
) -> None:
    """The same with rows that the caller has: of the rule as it is, or of a changed one."""
    assert rules, f"no row of {rewrite.name} is for opset {opset} and target {target}"
    trial = Trial(rewrite, case, opset, target)
    record = trial.apply(rules)
    reasons = [
        reason
        for name, statistics in record.statistics.items()
        if name == rewrite.name
        for reason in statistics.refused
    ] or ["the pattern does not fit"]
    if case.unchanged is not None:
        assert not record.fired, f"{rewrite.name} fired on a case that says 'unchanged'"
        assert checked_model(trial.builder) == trial.before
        if case.unchanged:
            said = f"refused because of {reasons or 'nothing'}"
            assert any(case.unchanged in reason for reason in reasons), said
        return
    assert record.fired, f"{rewrite.name} did not fire: {reasons or trial.builder.nodes}"
    assert {fired.rule for fired in record.fired} == {rewrite.name}
    if case.expect is not None:
        found = operators(trial.builder)
        assert found == case.expect.split(), f"operators are {' '.join(found)}"
    trial.compare()


def operators(builder: GraphBuilder) -> list[str]:
    """Operators in order, but for what depends on constants only and the Identity that gives a
    result its name."""
    return [
        node.op_type
        for node in builder.nodes
        if node.op_type != "Identity"
        and not all(builder.is_constant(name) for name in node.outputs if name)
    ]


def model_of(builder: GraphBuilder) -> onnx.ModelProto:
    """The model after the basic passes."""
    return builder.to_onnx()
