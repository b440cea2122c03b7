"""Quantize the weights of a graph by the weight rules, and repack weights that are quantized
already for kernels. Called by the exporter and the backend: to quantize where users request it
with `weights=`, which no other pass does; to repack where weights become constants.
"""

from __future__ import annotations

from typing import Any

from .rewrite import rule_selection
from .rewrite.engine import rewrite_graph
from .rewrite.record import RewriteRecord
from .unused_nodes import remove_unused
from .weight_quantization import QuantizationRun, QuantizedTensor, WeightOptions

# Files of rules: products first; tied embeddings share their codes.
_PRODUCTS = ("ort_codes", "weights", "weights_experts", "weights_half", "ort_weights")
_PREQUANTIZED = ("ort_codes", "ort_weights", "ort_embeddings")
_TABLES = ("ort_embeddings", "ort_embeddings_half")


def quantize_weights(
    graph: Any,
    options: WeightOptions,
    record: RewriteRecord | None = None,
    tensors: dict[tuple[str, bool], QuantizedTensor] | None = None,
) -> QuantizationRun:
    """Quantize the weights that the options select, in place.

    Args:
        graph: the graph, after all other passes.
        options: which weights, and how.
        record: receives the record of the rules.
        tensors: weights that were quantized before with such options, by name and whether the
            matrix was transposed; those of this run are added.
    """
    rounding = QuantizationRun(options, tensors={} if tensors is None else tensors)
    graph.rounding = rounding
    try:
        rewrite_graph(graph, rule_selection.select_rules(_PRODUCTS), record)
        if options.embeddings:
            rewrite_graph(graph, rule_selection.select_rules(_TABLES), record)
    finally:
        graph.rounding = None
    remove_unused(graph)
    return rounding


def pack_weight_codes(graph: Any) -> bool:
    """Repack 4-bit codes that a model has as weights for kernels, in place, and quantize nothing;
    return whether there were any.

    Args:
        graph: the graph, after all other passes, with its weights as constants.
    """
    record = rewrite_graph(graph, rule_selection.select_rules(_PREQUANTIZED))
    remove_unused(graph)
    return bool(record.fired)
