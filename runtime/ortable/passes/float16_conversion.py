"""Turn a float32 graph into a float16 graph: constants, computations and, on request, its inputs.

`Float16Plan` chooses the nodes that stay in float32. Casts stand only where float16 and float32
meet. Called by the exporter for ``weights=``, after all other passes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np
from onnx import TypeProto

from ortable import dtypes
from ortable.errors import ExportError
from ortable.inference.shape import ValueInfo
from ortable.ir import Graph, initializers
from ortable.ir.captures import captured_names, inner_graphs, rename_captured
from ortable.ir.node import Node
from ortable.passes.float16_plan import (
    Float16Plan,
    constant_of,
    is_float32,
    is_matrix,
    read_in_subgraphs,
    round_constant,
)
from ortable.passes.rewrite.helpers.quantized_weights import weight_name
from ortable.passes.unused_nodes import remove_unused
from ortable.passes.weight_quantization import (
    QuantizationRun,
    QuantizedWeight,
    SkippedWeight,
    WeightOptions,
)

_HALF, _FLOAT = dtypes.float16, dtypes.float32
_MIN_DEFERRED_ELEMENTS = 4096  # larger weights of torch are rounded when the model is written


def convert_to_float16(
    graph: Graph, options: WeightOptions, ranges: Mapping[str, float], run: QuantizationRun
) -> None:
    """Make a float16 graph of a float32 graph, in place.

    Args:
        graph: the main graph, after all other passes.
        options: what stays in float32.
        ranges: the largest finite magnitudes of float32 values, by name.
        run: the record, to which weights are added, and the nodes that stay in float32.

    Raises:
        ExportError: weights are bfloat16, float64, or have no data.
    """
    _check_weights(graph)
    plan = Float16Plan(graph, options, ranges)
    graph.kernel_table = {}  # ONNX Runtime's CPU provider inserts casts itself
    _Float16Writer(graph, plan, run).write_graph()
    run.float32_nodes = Counter((node.op_type, why) for node, why in plan.reasons.items())
    remove_unused(graph)


def _check_weights(graph: Graph) -> None:
    for name, value in graph.initializers_dict.items():
        dtype = initializers.dtype_of(value)
        is_weight = initializers.size_of(value) > initializers.MAX_SMALL_ELEMENTS
        if is_weight and dtype in (dtypes.bfloat16, dtypes.float64):
            raise ExportError(
                f"weights= makes float16 models of float32 models, and '{name}' is "
                f"{dtypes.name(dtype)}: call model.float() first"
            )
        if dtype == _FLOAT and initializers.is_fake(value):
            raise ExportError(
                f"weights= needs weights with data to make a float16 model; '{name}' has none"
            )


class _Float16Writer:
    """Writes the nodes of a graph again, in the types of a plan.

    ``floats`` are the names of float32 values of the graph as it was, and ``types`` maps them to
    their new types. ``copies`` maps the name of a value and a type to the name of its cast, and
    ``aliases`` the result of a cast that is left out to the value that it cast.
    """

    def __init__(self, graph: Graph, plan: Float16Plan, run: QuantizationRun) -> None:
        self.graph, self.plan, self.run = graph, plan, run
        self.types: dict[str, int] = {}
        self.copies: dict[tuple[str, int], str] = {}
        self.aliases: dict[str, str] = {}
        self.floats = {name for name, info in graph.values.items() if info.dtype == _FLOAT}
        self.codes = {part for parts in run.codes.values() for part in parts if part}
        self.codes |= set(run.packed.values())
        self.keep_io = plan.options.keep_io

    def write_graph(self) -> None:
        """Write constants, inputs and nodes."""
        graph, float32 = self.graph, self._types_of_constants()
        for info in graph.inputs:
            if info.dtype == _FLOAT and info.name not in graph.initializers_dict:
                self._set_type(info.name, _FLOAT if self.keep_io else _HALF)
        for name in list(graph.initializers_dict):
            if is_float32(graph, name):
                self._write_constant(name, float32.get(name, {_FLOAT}))
        graph.small_initializers = {}
        graph.computed_constants = {}
        nodes, graph.nodes[:] = list(graph.nodes), []
        graph.outdate_uses()
        for node in nodes:
            self._write_node(node)
        graph.outdate_uses()

    def _types_of_constants(self) -> dict[str, set[int]]:
        """Return the types in which nodes read initializers."""
        requested: dict[str, set[int]] = {}
        for node in self.graph.nodes:
            for index, name in enumerate(node.inputs):
                if name in self.graph.initializers_dict:
                    requested.setdefault(name, set()).add(self.plan.input_type(node, index))
        for name in read_in_subgraphs(self.graph) | self.plan.outputs:
            requested.setdefault(name, set()).add(_FLOAT)
        return requested

    def _set_type(self, name: str, dtype: int) -> None:
        self.types[name] = self.graph.values[name].dtype = dtype
        declared = self.graph.declared_types.get(name)
        if isinstance(declared, TypeProto):
            declared.tensor_type.elem_type = dtype

    def _write_constant(self, name: str, requested: set[int]) -> None:
        """Store an initializer in the types in which it is read."""
        graph = self.graph
        value = graph.initializers_dict[name]
        if is_matrix(graph, name) and name not in self.codes:
            self._record_weight(name, requested)
        if _HALF not in requested:
            self.types[name] = _FLOAT
            return
        half: Any
        is_mask = name in self.plan.masks
        if initializers.is_torch(value) and value.numel() >= _MIN_DEFERRED_ELEMENTS and not is_mask:
            half = initializers.Deferred(lambda: value.detach().half(), _HALF, tuple(value.shape))
        else:
            half = round_constant(value, is_mask)
        if _FLOAT in requested:
            self.types[name] = _FLOAT
            copy = graph.unique_name(f"{name}_float16")
            self.copies[name, _HALF] = graph.make_initializer(copy, half)
            return
        graph.initializers_dict[name] = half
        self._set_type(name, _HALF)
        info = graph.values[name]
        info.constant = half if isinstance(half, np.ndarray) and half.size <= 128 else None

    def _record_weight(self, name: str, requested: set[int]) -> None:
        run, state_name = self.run, weight_name(name)
        shape = initializers.shape_of(self.graph.initializers_dict[name])
        if _HALF in requested:
            error = self.plan.constant_error(name)
            run.rounded[name] = QuantizedWeight(state_name, shape, 16, 0, error)
            return
        readers = [node for node in self.graph.nodes if name in node.inputs]
        why = next((self.plan.reasons[node] for node in readers if node in self.plan.reasons), "")
        run.kept.setdefault(name, SkippedWeight(state_name, shape, why or "a subgraph reads it"))

    # -- nodes

    def _write_node(self, node: Node) -> None:
        graph = self.graph
        origin, graph.origin = graph.origin, node.origin
        if self._is_plain_cast(node):
            self.aliases[node.outputs[0]] = self._read_input(node, 0)
            self.types[self.aliases[node.outputs[0]]] = _HALF
            graph.origin = origin
            return
        inputs = [self._read_input(node, index) for index in range(len(node.inputs))]
        names = captured_names(node) if node.attrs else ()
        captured = {name: self._read_as(name, _FLOAT) for name in names if name in self.floats}
        for inner in inner_graphs(node) if captured else ():
            rename_captured(inner, captured)
        node.inputs = inputs
        graph.nodes.append(node)
        for index, name in enumerate(list(node.outputs)):
            if name in self.floats:
                self._write_output(node, index, self.plan.output_type(node, index))
        graph.origin = origin

    def _is_plain_cast(self, node: Node) -> bool:
        """Whether a node casts float32 to float16 or back, which other casts replace."""
        if node.op_type != "Cast" or node.domain or not self.plan.outputs.isdisjoint(node.outputs):
            return False
        name = node.inputs[0]
        dtype = _FLOAT if name in self.floats else self.graph.values[name].dtype
        return {dtype, node.attrs["to"]} == {_FLOAT, _HALF}

    def _read_input(self, node: Node, index: int) -> str:
        """Return the name to read as an input, in the type that the node needs."""
        name = node.inputs[index]
        if name not in self.floats:
            return self.aliases.get(name, name)
        dtype = _HALF if self._is_plain_cast(node) else self.plan.input_type(node, index)
        return self._read_as(name, dtype)

    def _write_output(self, node: Node, index: int, dtype: int) -> None:
        """Set the type of a result; outputs of the model have the type that the caller wants."""
        graph, name = self.graph, node.outputs[index]
        final = (_FLOAT if self.keep_io else _HALF) if name in self.plan.outputs else dtype
        self._set_type(name, final)
        if dtype == _HALF:
            self._change_attribute(node)
        if final == dtype:
            return
        info = graph.values[name]
        inner = graph.unique_name(f"{name}_{dtypes.name(dtype)}")
        graph.values[inner] = ValueInfo(inner, dtype, info.shape, info.rank, producer=node)
        node.outputs = [inner if item == name else item for item in node.outputs]
        self.copies[name, dtype] = inner
        cast = Node("Cast", [inner], [name], name=graph.node_names.make_unique("Cast"),
                    attrs={"to": final}, origin=node.origin)  # fmt: skip
        graph.nodes.append(cast)
        info.producer = cast

    def _change_attribute(self, node: Node) -> None:
        if node.op_type == "Cast":
            node.attrs["to"] = _HALF
        value = constant_of(node)
        if value is not None:
            is_mask = not self.plan.masks.isdisjoint(node.outputs)
            node.attrs = {"value": round_constant(value, is_mask)}

    def _read_as(self, name: str, dtype: int) -> str:
        """Return the name of a value in a type, adding a cast if there is none yet."""
        name = self.aliases.get(name, name)
        if self.types[name] == dtype:
            return name
        copy = self.copies.get((name, dtype))
        if copy is None:
            source, producer = name, self.graph.values[name].producer
            if producer is not None and producer.op_type == "Cast" and not producer.domain:
                source = producer.inputs[0]  # one cast in place of two
            if self.graph.values[source].dtype == dtype:
                return source
            copy = self.graph.unique_name(f"{name}_{dtypes.name(dtype)}")
            self.graph.make_node("Cast", [source], [copy], to=dtype)
            self.copies[name, dtype] = copy
        return copy
