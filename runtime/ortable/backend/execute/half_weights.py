"""Where weights of bfloat16 and float16 are: in torch's memory alone, or in a session in float32
too. In come a CompiledGraph and option `weights`, out go the positions of the arguments that may
become constants, models that cast weights late, and bytes. Called by `runner`."""

from __future__ import annotations

from collections.abc import Sequence

from onnx import ModelProto

from ortable import dims, dtypes
from ortable.backend.roles import CompiledGraph, InputRole
from ortable.ir.casts import HALVES
from ortable_generated.onnx.traits import GATHERS

__all__ = ["casting_late", "memory_of_weights", "without_matrices"]


def without_matrices(compiled: CompiledGraph, positions: Sequence[int]) -> tuple[int, ...]:
    """The positions without those of matrices of half floats, which a session would keep in
    float32."""
    stay = {role.index for role in compiled.inputs if _is_matrix(role)}
    return tuple(index for index in positions if index not in stay)


def _is_matrix(role: InputRole) -> bool:
    return role.elem_type in HALVES and len(role.shape or ()) > 1


def casting_late(model: ModelProto) -> ModelProto:
    """The model with the casts of inputs in front, which ONNX Runtime runs last: it looks for an
    order from the results backwards, among what a node reads for the latest in the file first.
    Where casts stand beside their readers it runs all of them before anything else, and all weights
    are float32 at a time."""
    result = ModelProto()
    result.CopyFrom(model)
    nodes = list(result.graph.node)
    halves = {each.name for each in result.graph.input if each.type.tensor_type.elem_type in HALVES}
    early = [len(node.input) == 1 and node.input[0] in halves for node in nodes]
    del result.graph.node[:]
    for wanted in (True, False):
        result.graph.node.extend(
            node for node, first in zip(nodes, early, strict=True) if first is wanted
        )
    return result


def memory_of_weights(compiled: CompiledGraph, constants: Sequence[int]) -> dict[str, int]:
    """Bytes of the weights that a graph reads: ``model_bytes`` where torch keeps them, and
    ``session_bytes``, what a session with these constants keeps beside that, in which half floats
    that operators compute with are float32."""
    chosen, found = set(constants), {"model_bytes": 0, "session_bytes": 0}
    wide = _computed_with(compiled)
    for role in compiled.inputs:
        if not role.static or role.name not in compiled.fed:
            continue
        count = dims.prod(role.shape or ())
        size = dtypes.ITEMSIZE.get(role.elem_type or 0, 0)
        if not isinstance(count, int):
            continue
        found["model_bytes"] += count * size
        if role.index in chosen:
            grown = role.elem_type in HALVES and role.name in wide
            found["session_bytes"] += count * (4 if grown else size)
    return found


def _computed_with(compiled: CompiledGraph) -> set[str]:
    """Inputs that some node does more with than to take out what indices of the call choose."""
    graph = compiled.model.graph
    constants = {each.name for each in graph.initializer}
    found: set[str] = set()
    for node in graph.node:
        chosen = len(node.input) > 1 and constants.isdisjoint(node.input[1:])
        takes = node.op_type in GATHERS and chosen
        found.update(node.input[1:] if takes else node.input)
    return found
