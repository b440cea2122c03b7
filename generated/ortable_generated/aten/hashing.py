# Generated from specs/aten/hashing.yaml by codegen. Do not edit: change the spec, then run `make codegen`.
from __future__ import annotations

from typing import TYPE_CHECKING

from ortable.dtypes import uint64
from ortable.inference import reduce_shape
from ortable.lowerings.hashing import hash_tensor
from ortable.prelude.metadata import shape_or_none

if TYPE_CHECKING:
    from ortable.ir import Graph, ResultSpec
    from ortable.prelude.metadata import Rules
    from ortable.prelude.facts import Bool, Int, Ints, Result


def aten_hash_tensor(graph: Graph, res: ResultSpec, self: Result, dim: Ints = (), *, keepdim: Bool = False, mode: Int = 0) -> Result:
    """aten::hash_tensor(Tensor self, int[1] dim=[], *, bool keepdim=False, int mode=0) -> Tensor"""
    return hash_tensor(graph, res, self=self, dim=dim, keepdim=keepdim)


def rule_aten_hash_tensor(graph: Graph, self: Result, dim: Ints = (), *, keepdim: Bool = False, mode: Int = 0) -> Rules:
    return ((uint64, reduce_shape(shape_or_none(graph, self), dim, keepdim)),)
