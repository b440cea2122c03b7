"""Find constant results and compute their values with onnx's reference implementation."""

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

_MAX_CACHED_BYTES = 4096  # evaluators of larger serialized nodes are not cached


class GatherElements(OpRun):
    """GatherElements for inputs that onnx.reference does not support.

    Indices may be smaller than the data along other axes; axes may have more than 64 elements.
    """

    op_domain = ""

    def _run(self, data: np.ndarray, indices: np.ndarray, axis: int = 0) -> tuple[np.ndarray]:
        grid = list(np.ogrid[tuple(slice(size) for size in indices.shape)])
        grid[axis] = indices
        return (data[tuple(grid)],)


class LazyConstant:
    """The value of a constant result, computed when an inference or rewrite rule reads it."""

    __slots__ = ("_graph", "_name")

    def __init__(self, graph: GraphState, name: str) -> None:
        self._graph = graph
        self._name = name

    def tolist(self) -> Any:
        """Return the value as nested lists of Python numbers."""
        return get_constant(self._graph, self._name).tolist()


def is_constant(graph: GraphState | None, name: str) -> bool:
    """Whether this graph or an enclosing one holds the result as a constant."""
    while graph is not None:
        if name in graph.constant_names:
            return True
        graph = graph.parent
    return False


def is_constant_node(graph: GraphState, node: Node) -> bool:
    """Whether all outputs of a node are the same in each run and can be computed in advance."""
    if node.domain or node.op_type in RANDOM:
        return False
    if not node.inputs:
        return node.op_type == "Constant"
    constants = graph.constant_names
    for name in node.inputs:
        if name and name not in constants and not is_constant(graph.parent, name):
            return False
    return not any(isinstance(value, (GraphState, GraphProto)) for value in node.attrs.values())


def get_constant(graph: GraphState, name: str) -> np.ndarray:
    """Return the value of a constant, and cache it if it had to be computed.

    Raises:
        BuilderError: the result is not constant, or onnx.reference cannot compute it.
    """
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
        _compute_constant(owner, name)
    return np.asarray(owner.computed_constants[name])


def _compute_constant(graph: GraphState, name: str) -> None:
    """Evaluate the nodes that a constant depends on, in order and without recursion."""
    stack = [graph.values[name].producer]
    while stack:
        node = stack[-1]
        pending = [
            graph.values[input_name].producer
            for input_name in node.inputs
            if input_name in graph.constant_names
            and input_name not in graph.initializers_dict
            and input_name not in graph.computed_constants
        ]
        if pending:
            stack.extend(pending)
            continue
        stack.pop()
        values = [
            get_constant(graph, input_name) if input_name else None for input_name in node.inputs
        ]
        try:
            evaluator = _get_evaluator(graph, node)
            with np.errstate(all="ignore"):  # log(0) is -inf in ONNX, without a warning
                results = _run_node(evaluator, values)
        except Exception as error:  # onnx.reference may raise any error
            raise BuilderError(
                f"Constant {name!r} cannot be computed by onnx.reference: {node!r}: {error}"
            ) from error
        for output, result in zip(filter(None, node.outputs), results, strict=True):
            if not isinstance(result, np.ndarray | np.generic):
                raise BuilderError(
                    f"Constant {name!r} is a sequence or an optional, not a tensor: {node!r}"
                )
            graph.computed_constants[output] = _check_dtype(graph, output, np.asarray(result))


def _get_evaluator(graph: GraphState, node: Node) -> ReferenceEvaluator:
    """Return an evaluator of one node at the model's opset, with inputs named i0, i1, ...

    Nodes that differ only in names share a cached evaluator if their attributes are small.
    """
    inputs = [f"i{index}" if name else "" for index, name in enumerate(node.inputs)]
    outputs = [f"o{index}" if name else "" for index, name in enumerate(node.outputs)]
    renamed = Node(node.op_type, inputs, outputs, node.domain, attrs=node.attrs)
    serialized = node_proto(graph, renamed).SerializeToString(deterministic=True)
    opsets = tuple(sorted(graph.opsets.items()))
    make_evaluator = _cached_evaluator if len(serialized) <= _MAX_CACHED_BYTES else _new_evaluator
    return make_evaluator(serialized, opsets)


def compute_node(graph: GraphState, node: Node, values: Sequence[np.ndarray | None]) -> np.ndarray:
    """Evaluate a node with one result on the given input values.

    Raises:
        BuilderError: onnx's reference implementation lacks the operator or rejects the values.
    """
    try:
        (result,) = _run_node(_get_evaluator(graph, node), list(values))
    except Exception as error:  # onnx.reference may raise any error
        raise BuilderError(f"{node!r} cannot be computed by onnx.reference: {error}") from error
    return np.asarray(result)


def _run_node(evaluator: ReferenceEvaluator, values: list[np.ndarray | None]) -> Sequence[Any]:
    """Run an evaluator of one node.

    An operator with one result and no subgraph is called directly, because the evaluator's checks
    of names and types take longer than most operators.
    """
    operator = evaluator.rt_nodes_[0]
    if len(operator.output) == 1 and not operator.need_context():
        results: tuple[Any, ...] = operator.run(*values)
        return results[:1]
    feeds = {f"i{index}": value for index, value in enumerate(values) if value is not None}
    outputs: Any = evaluator.run(None, feeds)
    return list(outputs)


def _new_evaluator(serialized: bytes, opsets: tuple[tuple[str, int], ...]) -> ReferenceEvaluator:
    """Build the evaluator of a serialized node.

    The node is wrapped in a graph, because for a bare node the evaluator uses the newest opset.
    Raises NotImplementedError if onnx.reference only implements a newer version of the operator.
    """
    node = NodeProto.FromString(serialized)
    graph = GraphProto(node=[node])
    for name in filter(None, node.input):
        graph.input.add().name = name
    for name in filter(None, node.output):
        graph.output.add().name = name
    evaluator = ReferenceEvaluator(graph, opsets=dict(opsets), new_ops=[GatherElements])
    opset = dict(opsets).get("", 1)
    if opset < versions.OLDEST_TARGET_OPSET:
        is_versioned = "_" in type(evaluator.rt_nodes_[0]).__name__  # such as Squeeze_11
        if not is_versioned and not schemas.has_same_signature(
            node.op_type, opset, versions.OLDEST_TARGET_OPSET
        ):
            raise NotImplementedError(f"onnx.reference has no {node.op_type} of opset {opset}")
    return evaluator


_cached_evaluator = lru_cache(maxsize=256)(_new_evaluator)


def _check_dtype(graph: GraphState, name: str, array: np.ndarray) -> np.ndarray:
    expected = graph.values[name].dtype
    if expected and dtypes.from_numpy(array.dtype) != expected:
        raise BuilderError(
            f"onnx.reference computes {array.dtype} for {name!r}, "
            f"but its type in the graph is {dtypes.name(expected)}."
        )
    return array
