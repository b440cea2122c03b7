"""The passes that make a converted graph smaller or faster, in the order in which they run, and
the function that runs them.

Called by `builder` (GraphBuilder.optimize), `exporter` (models and the bodies of local
functions) and `backend`: the options alone decide which passes run, never the caller.
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

FOLDED_BYTES = 1 << 20  # the largest result that constant folding stores
_CODES = "ort_codes"  # the file of rules about weights that are quantized already
_ALWAYS_ON = (
    "rewrites",
    "remove_unused",
    "remove_unused_functions",
)  # rules are disabled one by one
_CODE_TYPES = frozenset({dtypes.int8, dtypes.uint8, dtypes.int32})


@dataclass(frozen=True)
class PassOptions:
    """Which passes run.

    ``optimize``: False runs none of them and ignores the other options. ``rules``: the rewrite
    rules; without any only the basic passes run. ``quantized``: arrange QDQ parts as ONNX Runtime
    fuses them. ``folding``: fold constants of up to `FOLDED_BYTES` each. ``weight_transposes``:
    store weights that are only read transposed transposed, and, with ``folding``, what rules
    compute of weights. ``equal_initializers``: merge equal initializers.
    """

    optimize: bool = True
    rules: tuple[Rule, ...] = ()
    quantized: bool = False
    folding: bool = False
    weight_transposes: bool = False
    equal_initializers: bool = True

    @property
    def stores_weights(self) -> bool:
        """Whether rules may store weights that they compute from others."""
        return self.folding and self.weight_transposes


def select_passes(
    optimize: bool,
    rewrites: str | Sequence[str],
    *,
    folding: bool = False,
    weight_transposes: bool = False,
) -> PassOptions:
    """Make the options of the arguments ``optimize`` and ``rewrites`` of to_onnx and of the
    backend.

    Without a rule, quantized parts stay as in the model too. Raises like `select_rules`.
    """
    rules = rule_selection.select_rules(rewrites)
    return PassOptions(optimize, rules, bool(rules), folding, weight_transposes)


@dataclass(frozen=True)
class PassResult:
    """The result of the passes: ``counts`` of changes by name of the pass, and the record of
    rules.
    """

    counts: dict[str, int] = field(default_factory=dict)
    rewrites: RewriteRecord = field(default_factory=RewriteRecord)


@dataclass(frozen=True)
class _PassRun:
    """A run over one graph, as the passes see it."""

    graph: Any
    options: PassOptions
    result: PassResult


def _run_always(_: _PassRun) -> bool:
    return True


@dataclass(frozen=True)
class Pass:
    """One step: ``run`` changes the graph if ``when`` is true, and returns the number of changes.

    ``name`` is the key of its count; steps of one name add up. A count of zero is left out of the
    result where the step is ``quiet``. The bisector disables steps, except those that only remove
    unused parts; rules are disabled one by one.
    """

    name: str
    run: Callable[[_PassRun], int]
    when: Callable[[_PassRun], bool] = _run_always
    quiet: bool = False


def _is_disabled(step: Pass) -> bool:
    """Whether the bisector has disabled a step."""
    if step.name in _ALWAYS_ON:
        return False
    return is_disabled("passes", lambda: Application(step.name, subject=step.run))


def _apply_rules(run: _PassRun) -> int:
    record = run.result.rewrites
    before = len(record.fired)
    run.graph.stores_weights = run.options.stores_weights
    rewrite_graph(run.graph, run.options.rules, record)
    return len(record.fired) - before


def _arrange_codes(run: _PassRun) -> int:
    record = run.result.rewrites
    before = len(record.fired)
    rewrite_graph(run.graph, _code_rules(run.options.rules), record)
    return len(record.fired) - before


@cache
def _code_rules(rules: tuple[Rule, ...]) -> tuple[Rule, ...]:
    own = set(rule_selection.select_rules(_CODES))
    return tuple(rule for rule in rules if rule in own)


def _has_codes(run: _PassRun) -> bool:
    """Whether there may be quantized weights, packed or not, which folding would unpack."""
    if not run.options.folding or run.graph.target != "onnxruntime" or not run.options.rules:
        return False
    values = run.graph.initializers_dict.values()
    return any(
        initializers.dtype_of(value) in _CODE_TYPES and len(initializers.shape_of(value)) > 1
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
        when=lambda run: run.options.weight_transposes,
    ),
    Pass("rewrites", _arrange_codes, when=_has_codes),
    Pass(
        "constant_folding",
        lambda run: folding.constant_folding(run.graph, FOLDED_BYTES),
        when=lambda run: run.options.folding,
    ),
    Pass(_EQUAL_NODES.name, _EQUAL_NODES.run, when=_has_rules),
    Pass(_UNUSED.name, _UNUSED.run, when=_has_rules),  # unused nodes would count as readers
    Pass("rewrites", _apply_rules, when=_has_rules),
    Pass(  # after the rules: these make linear attention of a step
        "merge_scanned_attention",
        lambda run: scanned_attention.merge_scanned_attention(run.graph),
        when=_has_rules,
        quiet=True,
    ),
    Pass("rewrites", _apply_rules, when=_has_merged_scans),  # views around the merged attention
    Pass(_IDENTITIES.name, _IDENTITIES.run, when=_has_rewritten),
    Pass(
        "constant_folding",
        lambda run: folding.constant_folding(
            run.graph, FOLDED_BYTES, weights=run.options.weight_transposes
        ),
        when=lambda run: _has_rewritten(run) and run.options.folding,
    ),
    Pass(  # after the rules: gemm_add would undo it
        "arrange_quantized",
        lambda run: qdq.arrange_quantized(run.graph),
        when=lambda run: run.options.quantized,
        quiet=True,
    ),
    _UNUSED,
    Pass(
        "merge_equal_initializers",
        lambda run: common_subexpressions.merge_equal_initializers(
            run.graph, buffers=run.options.weight_transposes
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
        options: which of them run.
        record: receives the record of the rules; a new one by default.
    """
    result = PassResult(rewrites=record if record is not None else RewriteRecord())
    if not options.optimize:
        return result
    run, counts = _PassRun(graph, options, result), result.counts
    for step in PASSES:
        if not step.when(run) or _is_disabled(step):
            continue
        count = step.run(run)
        if count or not step.quiet:
            counts[step.name] = counts.get(step.name, 0) + count
    result_names.inherit_names(graph)
    return result
