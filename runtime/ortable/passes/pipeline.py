"""The passes that make a converted graph smaller or faster, their order, and `run_passes`.

Called by `builder` (GraphBuilder.optimize), `exporter` (models and the bodies of local
functions) and `backend`. Which passes run depends on the options and the graph, not on the caller.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from ortable import dtypes
from ortable.compat.bisector import Application, is_disabled
from ortable.ir import initializers

from . import (
    common_subexpressions,
    folding,
    identities,
    join_products,
    kept_casts,
    qdq,
    result_names,
    scanned_attention,
    unused_nodes,
    weight_transposes,
)
from .rewrite import rule_selection
from .rewrite.engine import rewrite_graph
from .rewrite.record import RewriteRecord
from .rewrite.rule import Rule

MAX_FOLDED_BYTES = 1 << 20  # the largest result that constant folding stores
_PREQUANTIZED_RULES = "ort_codes"  # the file of rules about weights that are stored quantized
# Passes that the bisector does not disable: it disables rewrite rules one by one, and cleanup is
# not searched.
_NOT_BISECTED = (
    "rewrites",
    "remove_unused",
    "remove_unused_functions",
)
_PREQUANTIZED_TYPES = frozenset({dtypes.int8, dtypes.uint8, dtypes.int32})


@dataclass(frozen=True)
class PassOptions:
    """The passes to run.

    ``optimize``: False runs no pass and ignores the other options. ``rules``: the rewrite rules;
    without rules, the passes that prepare, apply or follow rules do not run. ``quantized``:
    rearrange QDQ patterns so that ONNX Runtime fuses them. ``folding``: fold constants of up to
    `MAX_FOLDED_BYTES` each. ``transform_weights``: store a weight in transposed form if only
    transposes read it, compare small buffers by content to merge equal ones, and, with ``folding``,
    store the values of any size that rules compute from weights.
    ``equal_initializers``: merge equal initializers.
    """

    optimize: bool = True
    rules: tuple[Rule, ...] = ()
    quantized: bool = False
    folding: bool = False
    transform_weights: bool = False
    equal_initializers: bool = True

    @property
    def stores_weights(self) -> bool:
        """Whether rules may store weights that they compute from other weights."""
        return self.folding and self.transform_weights


def select_passes(
    optimize: bool,
    rewrites: str | Sequence[str],
    *,
    folding: bool = False,
    transform_weights: bool = False,
) -> PassOptions:
    """Return the pass options for ``optimize`` and ``rewrites`` of to_onnx and of the backend.

    Without rules, QDQ patterns are not rearranged.

    Raises:
        OptionError: see `select_rules`.
    """
    rules = rule_selection.select_rules(rewrites)
    return PassOptions(optimize, rules, bool(rules), folding, transform_weights)


@dataclass(frozen=True)
class PassResult:
    """The result of the passes: the number of changes by pass name, and the rewrite record."""

    counts: dict[str, int] = field(default_factory=dict)
    rewrites: RewriteRecord = field(default_factory=RewriteRecord)


@dataclass(frozen=True)
class _PassRun:
    """The argument of every pass: the graph, the options and the result of the run."""

    graph: Any
    options: PassOptions
    result: PassResult


def _always(_: _PassRun) -> bool:
    return True


@dataclass(frozen=True)
class Pass:
    """A pass: ``run`` changes the graph if ``when`` is true, and returns the number of changes.

    ``name`` is the key of the number of changes; the numbers of passes with the same name add up. A
    ``quiet`` pass without changes is left out of the result. The bisector can disable every pass
    that is not in ``_NOT_BISECTED``.
    """

    name: str
    run: Callable[[_PassRun], int]
    when: Callable[[_PassRun], bool] = _always
    quiet: bool = False


def _is_disabled(graph_pass: Pass) -> bool:
    """Whether the bisector has disabled a pass."""
    if graph_pass.name in _NOT_BISECTED:
        return False
    return is_disabled("passes", lambda: Application(graph_pass.name, subject=graph_pass.run))


def _apply_rules(run: _PassRun) -> int:
    record = run.result.rewrites
    before = len(record.fired)
    run.graph.stores_weights = run.options.stores_weights
    rewrite_graph(run.graph, run.options.rules, record)
    return len(record.fired) - before


def _apply_prequantized_rules(run: _PassRun) -> int:
    record = run.result.rewrites
    before = len(record.fired)
    rewrite_graph(run.graph, _select_prequantized_rules(run.options.rules), record)
    return len(record.fired) - before


@cache
def _select_prequantized_rules(rules: tuple[Rule, ...]) -> tuple[Rule, ...]:
    prequantized_rules = set(rule_selection.select_rules(_PREQUANTIZED_RULES))
    return tuple(rule for rule in rules if rule in prequantized_rules)


def _has_prequantized_weights(run: _PassRun) -> bool:
    """Whether the graph may have quantized weights that folding would unpack or dequantize."""
    if not run.options.folding or run.graph.target != "onnxruntime" or not run.options.rules:
        return False
    values = run.graph.initializers_dict.values()
    return any(
        initializers.dtype_of(value) in _PREQUANTIZED_TYPES
        and len(initializers.shape_of(value)) > 1
        for value in values
    )


def _has_rules(run: _PassRun) -> bool:
    return bool(run.options.rules)


def _has_merged_scans(run: _PassRun) -> bool:
    return bool(run.result.counts.get("merge_scanned_attention"))


def _has_rewritten(run: _PassRun) -> bool:
    return bool(run.result.counts.get("rewrites"))


_IDENTITIES = Pass("remove_identity_nodes", lambda run: identities.remove_identity_nodes(run.graph))
_EQUAL_NODES = Pass(
    "merge_equal_nodes", lambda run: common_subexpressions.merge_equal_nodes(run.graph)
)
_UNUSED = Pass("remove_unused", lambda run: unused_nodes.remove_unused(run.graph))

PASSES: tuple[Pass, ...] = (
    _IDENTITIES,
    Pass(
        "fold_weight_transposes",
        lambda run: weight_transposes.fold_weight_transposes(run.graph),
        when=lambda run: run.options.transform_weights,
    ),
    Pass("rewrites", _apply_prequantized_rules, when=_has_prequantized_weights),
    Pass(
        "constant_folding",
        lambda run: folding.constant_folding(run.graph, MAX_FOLDED_BYTES),
        when=lambda run: run.options.folding,
    ),
    Pass(_EQUAL_NODES.name, _EQUAL_NODES.run, when=_has_rules),
    Pass(_UNUSED.name, _UNUSED.run, when=_has_rules),  # rules count unused nodes as readers
    Pass("rewrites", _apply_rules, when=_has_rules),
    Pass(  # after the rules, which turn the body of a Scan into a LinearAttention node
        "merge_scanned_attention",
        lambda run: scanned_attention.merge_scanned_attention(run.graph),
        when=_has_rules,
        quiet=True,
    ),
    # The rules simplify the views around the merged attention.
    Pass("rewrites", _apply_rules, when=_has_merged_scans),
    Pass(_IDENTITIES.name, _IDENTITIES.run, when=_has_rewritten),
    Pass(
        "constant_folding",
        lambda run: folding.constant_folding(
            run.graph, MAX_FOLDED_BYTES, weights=run.options.transform_weights
        ),
        when=lambda run: _has_rewritten(run) and run.options.folding,
    ),
    Pass(  # after the rules, because rule gemm_add would undo this pass
        "arrange_quantized",
        lambda run: qdq.arrange_quantized(run.graph),
        when=lambda run: run.options.quantized,
        quiet=True,
    ),
    Pass(
        "join_products",
        lambda run: join_products.join_products(run.graph),
        when=lambda run: run.options.stores_weights and run.graph.target == "onnxruntime",
        quiet=True,
    ),
    Pass(  # after the rules, which would remove the Reshapes
        "keep_casts",
        lambda run: kept_casts.keep_casts(run.graph),
        when=lambda run: run.graph.target == "onnxruntime" and bool(run.graph.ctx.casts),
        quiet=True,
    ),
    _UNUSED,
    Pass(
        "merge_equal_initializers",
        lambda run: common_subexpressions.merge_equal_initializers(
            run.graph, buffers=run.options.transform_weights
        ),
        when=lambda run: run.options.equal_initializers,
        quiet=True,
    ),
    _EQUAL_NODES,
    _UNUSED,
    Pass(
        "remove_unused_functions",
        lambda run: unused_nodes.remove_unused_functions(run.graph),
        when=lambda run: bool(run.graph.functions) and run.graph.is_model,
    ),
)


def run_passes(graph: Any, options: PassOptions, record: RewriteRecord | None = None) -> PassResult:
    """Run `PASSES` over a graph, in place.

    Args:
        graph: the graph.
        options: which passes run.
        record: the record to which the firings and statistics of rules are added; by default a
            new record.
    """
    result = PassResult(rewrites=record if record is not None else RewriteRecord())
    if not options.optimize:
        return result
    run, counts = _PassRun(graph, options, result), result.counts
    for graph_pass in PASSES:
        if not graph_pass.when(run) or _is_disabled(graph_pass):
            continue
        count = graph_pass.run(run)
        if count or not graph_pass.quiet:
            counts[graph_pass.name] = counts.get(graph_pass.name, 0) + count
    result_names.inherit_names(graph)
    return result
