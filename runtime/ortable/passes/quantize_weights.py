"""Quantize the weights of a graph with the weight rules, or repack prequantized weights.

Called by the exporter and the backend. Only `weights=` requests quantization; no other pass
quantizes. Repacking runs where weights become constants.
"""

from __future__ import annotations

from typing import Any

from .rewrite import rule_selection
from .rewrite.engine import rewrite_graph
from .rewrite.record import RewriteRecord
from .unused_nodes import remove_unused
from .weight_quantization import QuantizationRun

# Files of rules. Matrix products are rewritten before embedding tables: a table that is tied to the
# weight of a product uses the codes (quantized values) of the product.
_PRODUCT_RULES = ("ort_codes", "weights", "weights_experts", "weights_half", "ort_weights")
_PREQUANTIZED_RULES = ("ort_codes", "ort_weights", "ort_embeddings")
_TABLE_RULES = ("ort_embeddings", "ort_embeddings_half")


def quantize_weights(
    graph: Any, run: QuantizationRun, record: RewriteRecord | None = None
) -> QuantizationRun:
    """Quantize the weights that the options of a run select, in place.

    Args:
        graph: the graph, after all other passes.
        run: the options, and what earlier runs with the same inputs computed; it is filled and
            returned.
        record: the record to which the rewrite rules are added.
    """
    graph.rounding = run
    try:
        rewrite_graph(graph, rule_selection.select_rules(_PRODUCT_RULES), record)
        if run.options.embeddings:
            rewrite_graph(graph, rule_selection.select_rules(_TABLE_RULES), record)
    finally:
        graph.rounding = None
    remove_unused(graph)
    return run


def pack_weight_codes(graph: Any) -> bool:
    """Repack 4-bit weight codes of a prequantized graph, in place; return whether a rule fired."""
    record = rewrite_graph(graph, rule_selection.select_rules(_PREQUANTIZED_RULES))
    remove_unused(graph)
    return bool(record.fired)
