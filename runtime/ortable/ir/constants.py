"""Constant results: which they are, and their values, computed by onnx's reference implementation
when asked."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from onnx import GraphProto, NodeProto
from onnx.reference import ReferenceEvaluator

from ortable import dtypes
from ortable.compat.onnx import OpRun
from ortable.errors import BuilderError
from ortable_generated.onnx.traits import RANDOM

from . import initializers, schemas, versions
from .node import Node
from .proto.node_proto import node_proto
from .state import GraphState

_KEPT_BYTES = 4096  # of a node whose evaluator is kept for others that look the same


class GatherElements(OpRun):
    """The operator of onnx.reference for indices that are smaller than the data along other axes,
    and for axes of more elements than 64."""

    op_domain = ""

    def _run(self, data: np.ndarray, indices: np.ndarray, axis: int = 0) -> tuple[np.ndarray]:
        grid = list(np.ogrid[tuple(slice(size) for size in indices.shape)])
        grid[axis] = indices
        return (data[tuple(grid)],)


class LazyConstant:
    """The value of a constant result, computed when a rule reads it."""

    __slots__ = ("_graph", "_name")

    def __init__(self, graph: GraphState, name: str) -> None:
        self._graph = graph
        self._name = name

    def tolist(self) -> Any:
        """The value as Python numbers in nested lists."""
        return get_constant(self._graph, self._name).tolist()


def is_constant(graph: GraphState | None, name: str) -> bool:
    """True for an initializer or a result of constants, in this graph or around it."""
    while graph is not None:
        if name in graph.constant_names:
            return True
        graph = graph.parent
    return False


def is_constant_node(graph: GraphState, node: Node) -> bool:
    """True when all outputs of the node are the same at every run and can be computed here."""
    if node.domain or node.op_type in RANDOM:
        return False
    if not node.inputs:
        return node.op_type == "Constant"
    constants = graph.constant_names
    for name in node.inputs:
        if name and name not in constants and not is_constant(graph.parent, name):
            return False
    return not any(isinstance(v, (GraphState, GraphProto)) for v in node.attrs.values())


def get_constant(graph: GraphState, name: str) -> np.ndarray:
    """Value of a constant; computed ones are kept. BuilderError when the result is not constant."""
    owner: Any = graph
    while owner is not None and name not in owner.constant_names:
        owner = owner.parent
    if owner is None:
        raise BuilderError(
            f"Result {name!r} is not a constant ({graph.tag}){graph.get_debug_msg()}"
        )
    if name in owner.initializers_dict:
        return initializers.to_numpy(owner.initializers_dict[name], name)
    if name not in owner.computed_constants:
        _compute(owner, name)
    return np.asarray(owner.computed_constants[name])


def _compute(graph: GraphState, name: str) -> None:
    """Computes the nodes that lead to a constant, in order and without recursion."""
    stack = [graph.values[name].producer]
    while stack:
        node = stack[-1]
        pending = [
            graph.values[n].producer
            for n in node.inputs
            if n in graph.constant_names
            and n not in graph.initializers_dict
            and n not in graph.computed_constants
        ]
        if pending:
            stack.extend(pending)
            continue
        stack.pop()
        values = [get_constant(graph, n) if n else None for n in node.inputs]
        try:
            evaluator = _evaluator(graph, node)
            with np.errstate(all="ignore"):  # log(0) is -inf here, as it is when the model runs
                results = _run(evaluator, values)
        except Exception as error:  # the reference implementation raises anything
            raise BuilderError(
                f"Constant {name!r} cannot be computed by onnx.reference: {node!r}: {error}"
            ) from error
        for output, result in zip(filter(None, node.outputs), results, strict=True):
            if not isinstance(result, np.ndarray | np.generic):
                raise BuilderError(
                    f"Constant {name!r} is a sequence or an optional, no tensor: {node!r}"
                )
            graph.computed_constants[output] = _checked(graph, output, np.asarray(result))


def _evaluator(graph: GraphState, node: Node) -> ReferenceEvaluator:
    """An evaluator of one node, at the opset of the model, whose inputs are i0, i1, and so on;
    nodes that differ in nothing but names share one."""
    inputs = [f"i{place}" if name else "" for place, name in enumerate(node.inputs)]
    outputs = [f"o{place}" if name else "" for place, name in enumerate(node.outputs)]
    alone = Node(node.op_type, inputs, outputs, node.domain, attrs=node.attrs)
    written = node_proto(graph, alone).SerializeToString(deterministic=True)
    opsets = tuple(sorted(graph.opsets.items()))
    make = _kept_evaluator if len(written) <= _KEPT_BYTES else _new_evaluator
    return make(written, opsets)


def computed(graph: GraphState, node: Node, values: Sequence[np.ndarray | None]) -> np.ndarray:
    """What a node of one result makes of other values than those of its inputs.

    Raises:
        BuilderError: onnx's reference implementation lacks the operator, or refuses the values.
    """
    try:
        (result,) = _run(_evaluator(graph, node), list(values))
    except Exception as error:  # the reference implementation raises anything
        raise BuilderError(f"{node!r} cannot be computed by onnx.reference: {error}") from error
    return np.asarray(result)


def _run(evaluator: ReferenceEvaluator, values: list[np.ndarray | None]) -> Sequence[Any]:
    """The results of an evaluator of one node.

    Its operator is called by itself where it has one result and no graph: the evaluator goes
    around every call with checks of names and types that take longer than most operators."""
    operator = evaluator.rt_nodes_[0]
    if len(operator.output) == 1 and not operator.need_context():
        results: tuple[Any, ...] = operator.run(*values)
        return results[:1]
    feeds = {f"i{place}": value for place, value in enumerate(values) if value is not None}
    found: Any = evaluator.run(None, feeds)
    return list(found)


def _new_evaluator(written: bytes, opsets: tuple[tuple[str, int], ...]) -> ReferenceEvaluator:
    """The evaluator of a node as bytes.

    The node is given as a graph: of a node, the evaluator would take the newest opset. Raises
    NotImplementedError for an operator that has changed since then, and that onnx.reference has
    only as it is now: up to opset 12 Softmax is one over several axes."""
    node = NodeProto.FromString(written)
    alone = GraphProto(node=[node])
    for name in filter(None, node.input):
        alone.input.add().name = name
    for name in filter(None, node.output):
        alone.output.add().name = name
    evaluator = ReferenceEvaluator(alone, opsets=dict(opsets), new_ops=[GatherElements])
    opset = dict(opsets).get("", 1)
    if opset < versions.OLDEST_OPSET:
        is_versioned = "_" in type(evaluator.rt_nodes_[0]).__name__  # Squeeze_11
        if not is_versioned and not schemas.same_meaning(
            node.op_type, opset, versions.OLDEST_OPSET
        ):
            raise NotImplementedError(f"onnx.reference has no {node.op_type} of opset {opset}")
    return evaluator


_kept_evaluator = lru_cache(maxsize=256)(_new_evaluator)


def _checked(graph: GraphState, name: str, array: np.ndarray) -> np.ndarray:
    """The array, whose type must be what the graph says."""
    expected = graph.values[name].dtype
    if expected and dtypes.from_numpy(array.dtype) != expected:
        raise BuilderError(
            f"onnx.reference computes {array.dtype} for {name!r}, "
            f"the graph says {dtypes.name(expected)}."
        )
    return array
