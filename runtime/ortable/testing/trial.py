"""Test a rule on one of its samples: the graph before and after, at several opsets and targets."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import onnx
import torch

from ortable import dtypes
from ortable.builder import GraphBuilder
from ortable.ir.versions import OLDEST_TARGET_OPSET, ORT_MAX_OPSET, TARGETS
from ortable.passes.rewrite import rule_selection
from ortable.passes.rewrite.engine import rewrite_graph as run_engine
from ortable.passes.rewrite.rule import Rule
from ortable.passes.weight_quantization import QuantizationRun, WeightOptions
from ortable_generated.kernels import KERNELS_CPU
from ortablegen.rewrites.model import Rewrite, RewriteSample

from .graphs import SampleGraph, build_graph
from .runs import (
    ModelRunner,
    check_same_declarations,
    check_same_inference,
    check_same_values,
    copy_declarations,
    make_checked_model,
)
from .values import concrete_shape, draw_tensor, is_free, list_sizes

DRAWS = 2
SPECIAL_DRAWS = 4  # with infinities, NaN and both zeros


# -- rules and targets


def _select_named_rules(names: str, target: str | None, opset: int) -> list[Rule]:
    return select_rules(rule_selection.select_rules(names), target, opset)


def select_rules(rules: Iterable[Rule], target: str | None, opset: int) -> list[Rule]:
    """Select the rules that run for the target and the opset."""
    return [
        rule
        for rule in rules
        if rule.target in ("", target) and rule.opsets[0] <= opset <= rule.opsets[1]
    ]


def select_rewrite_rules(
    name: str, target: str | None, opset: int, rule_set: str = "all"
) -> list[Rule]:
    """Select the rules of a rewrite, one for each alternative, for the target and the opset.

    ``rule_set`` is the name of a set of rules, or the path of a user's file.
    """
    return [rule for rule in _select_named_rules(rule_set, target, opset) if rule.name == name]


def default_rules(target: str | None, opset: int) -> list[Rule]:
    """Select the rules that are on by default."""
    return _select_named_rules("default", target, opset)


def all_rules(target: str | None, opset: int, but: str = "") -> list[Rule]:
    """Select all rules, including those that are off by default, except ``but``."""
    return [rule for rule in _select_named_rules("all", target, opset) if rule.name != but]


def list_targets(
    rewrite: Rewrite, sample: RewriteSample, rule_set: str = "all"
) -> Iterator[tuple[int, str | None]]:
    """Yield the targets of a sample, each with the lowest and the highest opset of the rewrite."""
    for target in TARGETS:
        if rewrite.target not in (None, target):
            continue
        supported = [
            opset
            for opset in range(OLDEST_TARGET_OPSET, ORT_MAX_OPSET + 1)
            if select_rewrite_rules(rewrite.name, target, opset, rule_set)
        ]
        requested = supported if sample.opset is None else [sample.opset]
        for opset in sorted({*requested[:1], *requested[-1:]}):
            yield opset, target


def build_sample(
    rewrite: Rewrite, sample: RewriteSample, opset: int, target: str | None
) -> SampleGraph:
    """Build the graph of a sample; for ONNX Runtime, replacements need operators with kernels."""
    graph = build_graph(rewrite, sample, opset, target)
    if target == "onnxruntime":
        graph.builder.kernel_table = KERNELS_CPU
    return graph


# -- trial


class RewriteTrial:
    """A graph before and after rewriting; ``apply`` runs the rules."""

    def __init__(
        self, rewrite: Rewrite, sample: RewriteSample, opset: int, target: str | None
    ) -> None:
        self.sample = sample
        self.built = build_sample(rewrite, sample, opset, target)
        self.builder = self.built.builder
        if sample.quantize is not None:
            self.builder.rounding = QuantizationRun(
                WeightOptions(sample.quantize, activations="float32")
            )
        self.before = make_checked_model(self.builder)
        self.outputs = copy_declarations(self.builder.outputs)
        self.inputs = copy_declarations(self.builder.inputs)
        # stages that change arithmetic may lose the sign of a zero; ONNX Runtime's Where loses some
        exact = rewrite.stage in ("simplify", "arrange") and sample.tolerance is None
        self.signs = exact and all(node.op_type != "Where" for node in self.builder.nodes)

    def apply(self, rules: Iterable[Rule]) -> Any:
        """Run the rules, and return the record of the rewrites."""
        record = run_engine(self.builder, rules)
        self.builder.remove_unused()
        return record

    def compare(self) -> None:
        """Check that rewriting preserved the declarations and the results of the graph."""
        check_same_declarations(self.inputs, copy_declarations(self.builder.inputs))
        check_same_declarations(self.outputs, copy_declarations(self.builder.outputs))
        after = make_checked_model(self.builder)
        assert list(after.graph.output) == list(self.before.graph.output)
        check_same_inference(self.before, after)
        old, new = ModelRunner(self.before), ModelRunner(after)
        generator = torch.Generator().manual_seed(0)
        for index, sizes in enumerate(list_sizes(self.built.symbols)):
            for draw in range(DRAWS + SPECIAL_DRAWS):
                special = draw >= DRAWS
                feeds = self.feeds(sizes, generator, special)
                try:
                    expected = old(feeds)
                except Exception:
                    if index == 0:
                        raise
                    break  # the graph itself does not run at these sizes
                description = f" ({sizes or 'static'}{', special values' if special else ''})"
                check_same_values(
                    expected, new(feeds), self.sample.tolerance, self.signs, description
                )

    def feeds(
        self, sizes: Mapping[str, int], generator: torch.Generator, special: bool
    ) -> dict[str, torch.Tensor]:
        """Draw a tensor for each input of the graph."""
        zeros = not _divides_integers(self.builder)
        return {
            name: draw_tensor(
                sample,
                concrete_shape(sample, sizes),
                generator,
                special and is_free(sample),
                zeros,
            )
            for name, sample in self.built.inputs.items()
        }


def _divides_integers(builder: GraphBuilder) -> bool:
    """Whether a node divides integers: ONNX Runtime stops the process at a division by zero."""
    return any(
        node.op_type in ("Div", "Mod") and dtypes.is_int_type(builder.values[node.inputs[1]].dtype)
        for node in builder.nodes
    )


def check_sample(
    rewrite: Rewrite, sample: RewriteSample, opset: int, target: str | None, rule_set: str = "all"
) -> None:
    """Check a rule alone on its sample: it fires and preserves the results, or it is refused."""
    rules = select_rewrite_rules(rewrite.name, target, opset, rule_set)
    check_rules(rewrite, sample, opset, target, rules)


def check_rules(
    rewrite: Rewrite, sample: RewriteSample, opset: int, target: str | None, rules: Sequence[Rule]
) -> None:
    """Check the given rules of a rewrite on a sample; a test may pass modified rules."""
    assert rules, f"no rule of {rewrite.name} is for opset {opset} and target {target}"
    trial = RewriteTrial(rewrite, sample, opset, target)
    record = trial.apply(rules)
    reasons = [
        reason
        for name, statistics in record.statistics.items()
        if name == rewrite.name
        for reason in statistics.refused
    ] or ["the pattern does not fit"]
    if sample.unchanged is not None:
        assert not record.fired, f"{rewrite.name} fired on a sample with 'unchanged'"
        assert make_checked_model(trial.builder) == trial.before
        if sample.unchanged:
            message = f"refused because of {reasons or 'nothing'}"
            assert any(sample.unchanged in reason for reason in reasons), message
        return
    assert record.fired, f"{rewrite.name} did not fire: {reasons or trial.builder.nodes}"
    assert {fired.rule for fired in record.fired} == {rewrite.name}
    if sample.expect is not None:
        ops = list_operators(trial.builder)
        assert ops == sample.expect.split(), f"operators are {' '.join(ops)}"
    trial.compare()


def list_operators(builder: GraphBuilder) -> list[str]:
    """List operators in order, without constant nodes and Identity nodes, which name results."""
    return [
        node.op_type
        for node in builder.nodes
        if node.op_type != "Identity"
        and not all(builder.is_constant(name) for name in node.outputs if name)
    ]


def make_model(builder: GraphBuilder) -> onnx.ModelProto:
    """Make the model after the basic passes."""
    return builder.to_onnx()
