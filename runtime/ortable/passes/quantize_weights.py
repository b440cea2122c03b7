"""Rounds the weights of a graph to integer codes, by the rules of the tables about weights, and
hands codes that a model has already to kernels. In come a graph and `WeightOptions`, out goes the
same graph, changed in place, and what was rounded. Called by the exporter and by the backend: to
round when somebody asks for it with `weights=`, which no other pass does; to arrange codes that
arrive where weights become constants."""

from __future__ import annotations

from typing import Any

from .rewrite import rule_selection
from .rewrite.engine import rewrite
from .rewrite.record import RewriteRecord
from .unused_nodes import remove_unused
from .weight_quantization import QuantizationRun, QuantizedTensor, WeightOptions

# Files of rules: products first, whose codes tables of embeddings share where they are tied.
_PRODUCTS = ("ort_codes", "weights", "weights_experts", "weights_half", "ort_weights")
_ARRIVING = ("ort_codes", "ort_weights", "ort_embeddings")
_TABLES = ("ort_embeddings", "ort_embeddings_half")


def round_weights(
    graph: Any,
    options: WeightOptions,
    record: RewriteRecord | None = None,
    made: dict[tuple[str, bool], QuantizedTensor] | None = None,
) -> QuantizationRun:
    """Rounds the weights that the options choose, in place.

    Args:
        graph: the graph, after all other passes.
        options: which weights, and how.
        record: takes the account of the rules.
        made: codes of weights that were rounded before with such options, by name and whether the
            matrix was transposed; takes those of this run too.
    """
    rounding = QuantizationRun(options, made={} if made is None else made)
    graph.rounding = rounding
    try:
        rewrite(graph, rule_selection.rules(_PRODUCTS), record)
        if options.embeddings:
            rewrite(graph, rule_selection.rules(_TABLES), record)
    finally:
        graph.rounding = None
    remove_unused(graph)
    return rounding


def arrange_codes(graph: Any) -> bool:
    """Codes of 4 bits that a model has as weights become those of kernels, in place, without
    rounding anything else; says whether there were any.

    Args:
        graph: the graph, after all other passes, with its weights as constants.
    """
    record = rewrite(graph, rule_selection.rules(_ARRIVING))
    remove_unused(graph)
    return bool(record.fired)
