"""A quantized graph in the form that ONNX Runtime turns into integer kernels. Values stay as they
are: codes of activations become unsigned, a Reshape or a bias moves behind what is in its way."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np

from ortable import dtypes
from ortable.errors import BuilderError
from ortable.inference.value_info import ValueInfo
from ortable.ir import Graph, editing
from ortable.ir.captures import captured, subgraphs
from ortable.ir.node import Node
from ortable.ir.state import GraphState
from ortable_generated.onnx.traits import HAS_SUBGRAPH, REARRANGES

from .unused import remove_unused

_BYTES = (dtypes.uint8, dtypes.int8)


def arrange_quantized(graph: Graph) -> int:
    """Rewrites the quantized parts of a graph for ONNX Runtime; returns how many were rewritten."""
    changed = 0
    found = False
    for node in graph.nodes:
        found = found or node.op_type == "DequantizeLinear"
        if node.key in HAS_SUBGRAPH:
            for inner in subgraphs(node):
                if isinstance(inner, GraphState):
                    changed += arrange_quantized(inner)  # type: ignore[arg-type]
    if not found:
        return changed
    remove_unused(graph)
    here = _Arrangement(graph)
    products = [node for node in graph.nodes if node.op_type == "Gemm"]
    count = sum(here.lift_reshape(node) for node in products)
    count += sum(here.unsigned(node) for node in graph.nodes if node.op_type == "QuantizeLinear")
    count += sum(here.sink_reshape(node) for node in products)
    count += here.free_biases()
    if count:
        editing.rebuild_history(graph)
    return changed + count


class _Arrangement:
    """Who reads what in one graph, and the rewrites."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.readers: dict[str, list[Node]] = defaultdict(list)
        self.fixed = {info.name for info in graph.outputs}
        for node in graph.nodes:
            for name in node.inputs:
                self.readers[name].append(node)
            if node.attrs:
                self.fixed |= captured(node)

    def unsigned(self, node: Node) -> bool:
        """int8 codes that only DequantizeLinear reads, behind a Clip or what moves values at most,
        become uint8: 128 is added to codes, zero points and bounds.

        On x86 ONNX Runtime has integer convolutions for unsigned activations only."""
        graph, results, places = self.graph, [node.outputs[0]], [(node, 2)]
        if graph.values[results[0]].dtype != dtypes.int8 or graph.is_constant(results[0]):
            return False
        for name in results:  # grows on the way
            if name in self.fixed or not self.readers[name]:
                return False
            for reader in self.readers[name]:
                if reader.op_type == "DequantizeLinear":
                    places.append((reader, 2))
                elif reader.op_type == "Clip" and len(reader.inputs) == 3:
                    places += [(reader, 1), (reader, 2)]
                elif reader.key not in REARRANGES:
                    return False
                if reader.op_type != "DequantizeLinear":
                    results.append(reader.outputs[0])
        moved = [self._shifted(*place) for place in places]
        if any(value is None for value in moved):
            return False
        for (each, place), value in zip(places, moved, strict=True):
            each.inputs += [""] * (place + 1 - len(each.inputs))
            each.inputs[place] = graph.make_initializer("", value)
        for name in results:
            graph.values[name].dtype = dtypes.uint8
        return True

    def _shifted(self, node: Node, place: int) -> np.ndarray | None:
        """A constant of codes plus 128; without a zero point it is 0. None when unknown."""
        name = node.inputs[place] if place < len(node.inputs) else ""
        if name == "":
            return np.array(128, np.uint8)
        value = self._constant(name)
        return None if value is None else (value.astype(np.int16) + 128).astype(np.uint8)

    def lift_reshape(self, node: Node) -> bool:
        """DequantizeLinear, Reshape, Gemm: it is the codes that are reshaped."""
        graph = self.graph
        reshape: Any = graph.values[node.inputs[0]].producer
        if reshape is None or reshape.op_type != "Reshape" or not graph.is_own(node.inputs[0]):
            return False
        before = self._dequantized(reshape.inputs[0])
        if before is None or graph.get_rank(before.inputs[1]) > 0:
            return False
        result, codes = reshape.outputs[0], before.inputs[0]
        moved = self._new_result(f"{codes}_rows", result, reshape)
        graph.values[moved].dtype = graph.values[codes].dtype
        name = graph._node_names.unique("DequantizeLinear")
        after = Node(
            before.op_type, [moved, *before.inputs[1:]], [result], name=name, origin=before.origin
        )
        self.readers[reshape.inputs[0]].remove(reshape)
        self.readers[codes].append(reshape)
        self.readers[moved] = [after]
        reshape.inputs[0], reshape.outputs = codes, [moved]
        graph.values[result].producer = after
        graph.nodes.insert(graph.nodes.index(reshape) + 1, after)
        if not self.readers[before.outputs[0]] and before.outputs[0] not in self.fixed:
            self.readers[codes].remove(before)
            graph.nodes.remove(before)
        return True

    def sink_reshape(self, node: Node) -> bool:
        """Gemm, Reshape, perhaps Relu, QuantizeLinear: the Reshape becomes the last, so that the
        product ends in codes."""
        chain = [node]
        for kinds in (("Reshape",), ("Relu", "QuantizeLinear"), ("QuantizeLinear",)):
            after = self._only_reader(chain[-1].outputs[0])
            if after is None or after.op_type not in kinds:
                return False
            chain.append(after)
            if after.op_type == "QuantizeLinear":
                break
        reshape, last = chain[1], chain[-1]
        if self._dequantized(node.inputs[1]) is None or self.graph.get_rank(last.inputs[1]) > 0:
            return False
        before = node.outputs[0]
        for each in chain[2:]:
            each.inputs[0] = before
            self.readers[before] = [each]
            before = each.outputs[0]
            if each is not last:
                self._copy_shape(node.outputs[0], before)
        del self.graph.values[reshape.outputs[0]]
        rows = self._new_result(f"{before}_rows", node.outputs[0], last)
        self.graph.values[rows].dtype = self.graph.values[before].dtype
        last.outputs, reshape.inputs[0], reshape.outputs = [rows], rows, [before]
        self.readers[rows] = [reshape]
        self.graph.values[before].producer = reshape
        self.graph.nodes.remove(reshape)
        self.graph.nodes.insert(self.graph.nodes.index(last) + 1, reshape)
        return True

    def _copy_shape(self, source: str, name: str) -> None:
        known, other = self.graph.values[source], self.graph.values[name]
        other.shape, other.rank = known.shape, known.rank

    def _new_result(self, prefix: str, like: str, producer: Node) -> str:
        """A free name for a result with the type and shape of another one."""
        name, known = self.graph.unique_name(prefix), self.graph.values[like]
        self.graph.values[name] = ValueInfo(
            name, known.dtype, known.shape, known.rank, None, None, producer
        )
        return name

    def free_biases(self) -> int:
        """The float bias of a quantized Gemm becomes an Add where no QuantizeLinear follows: with
        it, ONNX Runtime would compute the product in floats."""
        nodes: list[Node] = []
        for node in self.graph.nodes:
            nodes.append(node)
            if node.op_type == "Gemm" and self._bias_is_in_the_way(node):
                nodes.append(self._split(node))
        count = len(nodes) - len(self.graph.nodes)
        self.graph.nodes[:] = nodes
        return count

    def _bias_is_in_the_way(self, node: Node) -> bool:
        if len(node.inputs) < 3 or node.attrs.get("beta", 1.0) != 1.0:
            return False
        first, second, bias = (self._dequantized(name) for name in node.inputs)
        if first is None or second is None or bias is not None:
            return False
        return self._constant(first.inputs[1]) is None or not self._is_requantized(node)

    def _is_requantized(self, node: Node) -> bool:
        """Whether codes are made of the product, at most with a Relu before that changes none."""
        after = self._only_reader(node.outputs[0])
        relu = after is not None and after.op_type == "Relu"
        if after is not None and relu:
            after = self._only_reader(after.outputs[0])
        if after is None or after.op_type != "QuantizeLinear":
            return False
        if self._constant(after.inputs[1]) is None:
            return False
        zero = self._constant(after.inputs[2]) if len(after.inputs) > 2 else np.uint8(0)
        return not relu or (zero is not None and int(zero.max()) == np.iinfo(zero.dtype).min)

    def _split(self, node: Node) -> Node:
        graph, result, bias = self.graph, node.outputs[0], node.inputs[2]
        product = self._new_result(f"{result}_product", result, node)
        node.inputs, node.outputs = node.inputs[:2], [product]
        node.attrs.pop("beta", None)
        name = graph._node_names.unique("Add")
        added = Node("Add", [product, bias], [result], name=name, origin=node.origin)
        graph.values[result].producer = added
        return added

    def _dequantized(self, name: str) -> Node | None:
        """The DequantizeLinear of bytes, or of int32, that makes a result."""
        node: Any = self.graph.values[name].producer
        if node is None or node.op_type != "DequantizeLinear":
            return None
        return node if self.graph.values[node.inputs[0]].dtype in (*_BYTES, dtypes.int32) else None

    def _only_reader(self, name: str) -> Node | None:
        readers = self.readers[name]
        return readers[0] if len(readers) == 1 and name not in self.fixed else None

    def _constant(self, name: str) -> Any:
        """The value of a constant that has data, else None."""
        try:
            return self.graph.get_constant(name) if self.graph.is_constant(name) else None
        except BuilderError:
            return None
