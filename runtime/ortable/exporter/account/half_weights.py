"""Weights of bfloat16 and float16 in a file: as they are, or in float32 where the graph casts them.
In come a graph and the word of ``weights=``, out goes what they take; called by to_onnx."""

from __future__ import annotations

from dataclasses import dataclass

from ortable.builder import GraphBuilder
from ortable.ir import initializers
from ortable.ir.casts import HALVES
from ortable.passes.rewrite import choose
from ortable.passes.rewrite.engine import rewrite
from ortable.passes.rewrite.record import RewriteRecord
from ortable.passes.weight_codes import Stored

__all__ = ["StoredWeights", "stored_builder"]


@dataclass(frozen=True)
class StoredWeights:
    """What ``weights="keep"`` and ``weights="float32"`` did to a model of half floats.

    Attributes:
        kind: what was asked for.
        half_bytes_before, half_bytes_after: of the initializers of bfloat16 and float16.
        bytes_before, bytes_after: of all initializers.
    """

    kind: Stored
    half_bytes_before: int
    half_bytes_after: int
    bytes_before: int
    bytes_after: int

    def __str__(self) -> str:
        half = f"{self.half_bytes_before / 1e6:,.1f} MB of 16 bits"
        left = f"{self.half_bytes_after / 1e6:,.1f} of 16 bits"
        return (
            f"weights={self.kind!r}: {half} among {self.bytes_before / 1e6:,.1f} MB of weights "
            f"became {left} among {self.bytes_after / 1e6:,.1f}"
        )


def stored_builder(builder: GraphBuilder, kind: Stored, record: RewriteRecord) -> StoredWeights:
    """Stores the weights of a graph as asked, in place.

    Args:
        builder: the graph, after all other passes.
        kind: ``"keep"`` changes nothing.
        record: takes the account of the rules.
    """
    half, every = _bytes(builder)
    if kind == "float32":
        rewrite(builder, choose.rules("half_weight_as_float32"), record)
        builder.remove_unused()
    return StoredWeights(kind, half, _bytes(builder)[0], every, _bytes(builder)[1])


def _bytes(builder: GraphBuilder) -> tuple[int, int]:
    """Of initializers of half floats, and of all."""
    half = every = 0
    for value in builder.initializers_dict.values():
        size = int(initializers.nbytes_of(value))
        every += size
        half += size if initializers.dtype_of(value) in HALVES else 0
    return half, every
