"""Everything that makes a converted graph smaller or faster, in order: the builder's passes around
the rules of rewriting."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ortable.passes import common_subexpressions, qdq, unused, weight_transposes

from .engine import rewrite
from .record import RewriteRecord
from .rule import Rule


def optimize(
    builder: Any,
    rules: Sequence[Rule],
    *,
    folding: bool = False,
    turning: bool = False,
    record: RewriteRecord | None = None,
) -> dict[str, int]:
    """Runs the passes and the rules over a graph, in place; counts of what was removed or
    rewritten.

    Args:
        builder: the graph.
        rules: what `choose.rules` gives; none leaves the builder's passes.
        folding: compute what depends on constants only, up to 1 MiB a result.
        turning: keep weights that are only read transposed transposed, and store those that
            rules compute in place of others, with ``folding``.
        record: takes the account of the rules.
    """
    counts = {"remove_identity_nodes": builder.remove_identity_nodes()}
    if turning:
        counts["fold_weight_transposes"] = weight_transposes.fold_weight_transposes(builder)
    if folding:
        counts["constant_folding"] = builder.constant_folding()
    if rules:
        counts["merge_equal_nodes"] = builder.merge_equal_nodes()
        counts["remove_unused"] = builder.remove_unused()  # what nobody reads would be a reader
        before = len(record.fired) if record is not None else 0
        builder.stores_weights = folding and turning
        record = rewrite(builder, rules, record)
        counts["rewrites"] = len(record.fired) - before
        if counts["rewrites"]:
            counts["remove_identity_nodes"] += builder.remove_identity_nodes()
            if folding:
                counts["constant_folding"] += builder.constant_folding(weights=turning)
        arranged = qdq.arrange_quantized(builder)  # which gemm_add would undo
        if arranged:
            counts["arrange_quantized"] = arranged
    counts["remove_unused"] = counts.get("remove_unused", 0) + builder.remove_unused()
    equal = common_subexpressions.merge_equal_initializers(builder, buffers=turning)
    if equal:
        counts["merge_equal_initializers"] = equal
    counts["merge_equal_nodes"] = counts.get("merge_equal_nodes", 0) + builder.merge_equal_nodes()
    counts["remove_unused"] += builder.remove_unused()
    if builder.functions and builder.is_model:
        counts["remove_unused_functions"] = unused.remove_unused_functions(builder)
    return counts
