"""Arguments that a graph writes into where they lie: a cache of keys gets new rows, and nothing is
copied. In come a CompiledGraph and a session, out comes what runs it with results in the memory of
arguments; called by `call` and `call_source`.

ONNX Runtime takes memory for a result from the caller. A kernel with the trait `in_place` that
finds its first input there copies nothing. That is right where this kernel alone reads the
argument: no other sees it half written."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from onnx import GraphProto, ModelProto

from ortable.backend.roles import CompiledGraph, OutputRoleKind
from ortable.compat.onnxruntime import bound_session, in_memory_of
from ortable_generated.onnx.traits import IN_PLACE

__all__ = ["running_in_place", "written_in_place"]


def written_in_place(compiled: CompiledGraph) -> dict[int, str]:
    """Positions of mutations whose result may lie in the memory of the argument, each with the name
    of the output of the model. None where the graph asserts something: what does not hold is told
    before anything is written."""
    if not compiled.mutations or compiled.checks or compiled.device != "cpu":
        return {}
    writers = _sole_writers(compiled.model)
    found: dict[int, str] = {}
    for place, mutation in enumerate(compiled.mutations):
        result, role = compiled.outputs[mutation.result], compiled.inputs[mutation.source]
        if result.kind is not OutputRoleKind.TENSOR or not role.dense or role.permutation:
            continue
        fetch = compiled.fetches[result.fetch]
        plain = not (fetch.permutation or fetch.strides or fetch.is_complex or fetch.float8)
        if plain and writers.get(role.name) == fetch.name:
            found[place] = fetch.name
    return found


def _sole_writers(model: ModelProto) -> Mapping[str, str]:
    """Inputs of the model that one node alone reads, one that writes over it, with its result."""
    readers = Counter(_read(model.graph))
    inputs = {value.name for value in model.graph.input}
    found = {}
    for node in model.graph.node:
        key = f"{node.domain}::{node.op_type}" if node.domain else node.op_type
        first = node.input[0] if node.input else ""
        if key in IN_PLACE and first in inputs and readers[first] == 1:
            found[first] = node.output[0]
    return found


def _read(graph: GraphProto) -> Iterator[str]:
    """Names that nodes read, once for each reading, in inner graphs too; outputs are readings."""
    for node in graph.node:
        yield from node.input
        for attribute in node.attribute:
            for inner in (attribute.g, *attribute.graphs):
                yield from _read(inner)
    yield from (value.name for value in graph.output)


def running_in_place(session: Any, sources: Mapping[str, str]) -> Callable[..., Any]:
    """What runs a session: `run(feeds, names, options)`.

    :param sources: outputs by name, each with the input whose memory it gets
    """
    bound = bound_session(session)

    def run(feeds: Mapping[str, Any], names: Sequence[str], options: Any) -> Any:
        return in_memory_of(bound, feeds, names, sources, options)

    return run
