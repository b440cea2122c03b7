"""Helpers of ort_half: bfloat16 and float16 weights that float32 kernels read through a Cast."""

from __future__ import annotations

from ortable import dtypes
from ortable.ir import Graph, initializers
from ortable.ir.casts import HALF_DTYPES
from ortable.prelude.facts import Bool, Result

from .quantized_weights import owner_of

__all__ = ["float32_weight", "is_half_weight", "is_stored_half_matrix"]


def is_stored_half_matrix(graph: Graph, w: Result) -> Bool:
    """Whether a half-precision matrix is an input or an initializer, not the result of a node."""
    if graph.get_type(w) not in HALF_DTYPES or graph.values[w].producer is not None:
        return False
    return bool(graph.has_shape(w)) and len(graph.get_shape(w)) == 2


def is_half_weight(graph: Graph, w: Result) -> Bool:
    """Whether a result is a readable half-precision initializer."""
    return graph.get_type(w) in HALF_DTYPES and owner_of(graph, w) is not None


def float32_weight(graph: Graph, w: Result) -> Result:
    """Return the weight in float32, stored once as ``<name>_float32``."""
    owner, name = owner_of(graph, w), f"{w}_float32"
    assert owner is not None, w
    if name in owner.initializers_dict:
        return name
    value = owner.initializers_dict[w]
    if initializers.is_torch(value):
        converted = value.detach().float()
    else:
        converted = initializers.to_numpy(value, w).astype(dtypes.to_numpy(dtypes.float32))
    stored: str = owner.make_initializer(owner.unique_name(name), converted)
    return stored
