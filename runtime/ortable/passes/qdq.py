"""Arrange a quantized graph so that ONNX Runtime uses integer kernels. Values do not change: codes
of activations become unsigned, and a Reshape or a bias moves out of fused patterns.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ortable import dtypes
from ortable.errors import BuilderError
from ortable.inference.shape import ValueInfo
from ortable.ir import Graph, editing
from ortable.ir.captures import inner_graphs
from ortable.ir.node import Node
from ortable_generated.onnx.traits import MULTIPLIES_CODES, REARRANGES

from .unused_nodes import remove_unused

_BYTES = (dtypes.uint8, dtypes.int8)


def arrange_quantized(graph: Graph) -> int:
    """Rewrite the quantized parts of a graph for ONNX Runtime; return how many were rewritten."""
    changed = 0
    has_dequantize = False
    for node in graph.nodes:
        has_dequantize = has_dequantize or node.op_type == "DequantizeLinear"
        for inner in inner_graphs(node) if node.attrs else ():
            changed += arrange_quantized(inner)
    if not has_dequantize:
        return changed
    remove_unused(graph)
    arrangement = _Arrangement(graph)
    products = [node for node in graph.nodes if node.op_type == "Gemm"]
    count = sum(arrangement.lift_reshape(node) for node in products)
    count += sum(
        arrangement.make_unsigned(node) for node in graph.nodes if node.op_type == "QuantizeLinear"
    )
    count += arrangement.make_weights_unsigned()
    count += sum(arrangement.sink_reshape(node) for node in products)
    count += arrangement.free_biases()
    if count:
        editing.outdate_history(graph)
    return changed + count


class _Arrangement:
    """The rewrites of one graph."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.outputs = {info.name for info in graph.outputs}

    def make_unsigned(self, node: Node) -> bool:
        """Turn int8 codes into uint8 by adding 128 to codes, zero points and bounds.

        Only DequantizeLinear may read them, behind at most a Clip or operators that move values. On
        x86 ONNX Runtime has integer convolutions for unsigned activations only.
        """
        graph, results, operands = self.graph, [node.outputs[0]], [(node, 2)]
        if graph.values[results[0]].dtype != dtypes.int8 or graph.is_constant(results[0]):
            return False
        for name in results:  # grows on the way
            readers = graph.uses(name)
            if name in self.outputs or not readers:
                return False
            for reader in readers:
                if reader.op_type == "DequantizeLinear":
                    operands.append((reader, 2))
                elif reader.op_type == "Clip" and len(reader.inputs) == 3:
                    operands += [(reader, 1), (reader, 2)]
                elif reader.key not in REARRANGES:
                    return False
                if reader.op_type != "DequantizeLinear":
                    results.append(reader.outputs[0])
        moved = [self._shift_constant(*operand) for operand in operands]
        if any(value is None for value in moved):
            return False
        for (target, index), value in zip(operands, moved, strict=True):
            inputs = target.inputs + [""] * (index + 1 - len(target.inputs))
            inputs[index] = graph.make_initializer("", value)
            editing.set_inputs(graph, target, inputs)
        for name in results:
            graph.values[name].dtype = dtypes.uint8
        return True

    def _shift_constant(self, node: Node, index: int) -> np.ndarray | None:
        """A constant of codes plus 128, where a missing zero point is 0; None when it is
        unknown.
        """
        name = node.inputs[index] if index < len(node.inputs) else ""
        if name == "":
            return np.array(128, np.uint8)
        value = self._constant_value(name)
        return None if value is None else (value.astype(np.int16) + 128).astype(np.uint8)

    def make_weights_unsigned(self) -> int:
        """Turn int8 codes that are multiplied by uint8 codes into uint8: add 128 to codes and zero
        points.

        Without VNNI, ONNX Runtime's products of uint8 with int8 add two products in 16 bits, which
        overflow; its products of uint8 with uint8 are exact everywhere.
        """
        nodes: dict[Node, None] = {}
        for node in self.graph.nodes:
            if node.key in MULTIPLIES_CODES:
                first, second = (self._codes_of(name) for name in node.inputs[:2])
                if first is not None and second is not None:
                    types = [
                        self.graph.values[source.inputs[0]].dtype for source in (first, second)
                    ]
                    here = self.graph.is_own(second.outputs[0])
                    if here and types == [dtypes.uint8, dtypes.int8]:
                        nodes[second] = None
        return sum(self._make_codes_unsigned(node) for node in nodes)

    def _codes_of(self, name: str) -> Node | None:
        """The DequantizeLinear that a result comes from, through operators that move values."""
        node: Any = self.graph.values[name].producer
        while node is not None and node.key in REARRANGES:
            node = self.graph.values[node.inputs[0]].producer
        return None if node is None else self._find_dequantize(node.outputs[0])

    def _make_codes_unsigned(self, node: Node) -> bool:
        """Make one DequantizeLinear read uint8 codes of the same values."""
        graph, inputs = self.graph, list(node.inputs)
        if len(inputs) < 3 or not inputs[2]:
            scale = graph.get_shape(inputs[1]) if graph.has_shape(inputs[1]) else None
            if scale is None or not all(isinstance(size, int) for size in scale):
                return False
            zero = graph.make_initializer("", np.full(scale, 128, np.uint8))
            inputs = [*inputs[:2], zero]
        else:
            inputs[2] = self._plus_128(inputs[2], node)
        inputs[0] = self._plus_128(inputs[0], node)
        editing.set_inputs(graph, node, inputs)
        return True

    def _plus_128(self, codes: str, before: Node) -> str:
        """int8 codes plus 128 as uint8: another constant, or nodes before their reader."""
        graph, value = self.graph, self._constant_value(codes)
        if value is not None:
            return graph.make_initializer("", (value.astype(np.int16) + 128).astype(np.uint8))
        upper = graph.make_initializer("", np.array(128, np.uint8))
        cast = self._insert_node(before, "Cast", [codes], {"to": int(dtypes.uint8)})
        return self._insert_node(before, "BitwiseXor", [cast, upper], {})

    def _insert_node(self, before: Node, op_type: str, inputs: list[str], attrs: Any) -> str:
        """Insert a node before another one; its result is uint8 with the shape of the first
        input.
        """
        graph, name = self.graph, self.graph.node_names.make_unique(op_type)
        inserted = Node(op_type, inputs, [""], name=name, attrs=attrs, origin=before.origin)
        inserted.outputs = [self._new_result(f"{inputs[0]}_{op_type}", inputs[0], inserted)]
        graph.values[inserted.outputs[0]].dtype = dtypes.uint8
        editing.place_after(graph, inserted, after=before)
        editing.place_after(graph, before, after=inserted)
        return inserted.outputs[0]

    def lift_reshape(self, node: Node) -> bool:
        """DequantizeLinear, Reshape, Gemm: reshape the codes instead."""
        graph = self.graph
        reshape: Any = graph.values[node.inputs[0]].producer
        if reshape is None or reshape.op_type != "Reshape" or not graph.is_own(node.inputs[0]):
            return False
        before = self._find_dequantize(reshape.inputs[0])
        if before is None or graph.get_rank(before.inputs[1]) > 0:
            return False
        result, codes = reshape.outputs[0], before.inputs[0]
        moved = self._new_result(f"{codes}_rows", result, reshape)
        graph.values[moved].dtype = graph.values[codes].dtype
        name = graph.node_names.make_unique("DequantizeLinear")
        after = Node(
            before.op_type, [moved, *before.inputs[1:]], [result], name=name, origin=before.origin
        )
        editing.set_inputs(graph, reshape, [codes, *reshape.inputs[1:]])
        reshape.outputs = [moved]
        editing.place_after(graph, after, after=reshape)
        if not graph.uses(before.outputs[0]) and before.outputs[0] not in self.outputs:
            editing.remove_nodes(graph, [before])
        return True

    def sink_reshape(self, node: Node) -> bool:
        """Gemm, Reshape, perhaps Relu, QuantizeLinear: move the Reshape to the end, so that the
        product ends in codes.
        """
        reshape = self._only_reader(node.outputs[0])
        if reshape is None or reshape.op_type != "Reshape":
            return False
        last = self._only_reader(reshape.outputs[0])
        between: list[Node] = []
        if last is not None and last.op_type == "Relu":
            between.append(last)
            last = self._only_reader(last.outputs[0])
        if last is None or last.op_type != "QuantizeLinear":
            return False
        if self._find_dequantize(node.inputs[1]) is None or self.graph.get_rank(last.inputs[1]) > 0:
            return False
        before = node.outputs[0]
        for moved in (*between, last):
            editing.set_inputs(self.graph, moved, [before, *moved.inputs[1:]])
            before = moved.outputs[0]
            if moved is not last:
                self._copy_shape(node.outputs[0], before)
        del self.graph.values[reshape.outputs[0]]
        rows = self._new_result(f"{before}_rows", node.outputs[0], last)
        self.graph.values[rows].dtype = self.graph.values[before].dtype
        editing.set_inputs(self.graph, reshape, [rows, *reshape.inputs[1:]])
        last.outputs, reshape.outputs = [rows], [before]
        editing.place_after(self.graph, reshape, after=last)
        return True

    def _copy_shape(self, source: str, name: str) -> None:
        info, other = self.graph.values[source], self.graph.values[name]
        other.shape, other.rank = info.shape, info.rank

    def _new_result(self, prefix: str, like: str, producer: Node) -> str:
        """A free name for a result with the type and shape of another one."""
        name, info = self.graph.unique_name(prefix), self.graph.values[like]
        self.graph.values[name] = ValueInfo(
            name, info.dtype, info.shape, info.rank, None, None, producer
        )
        return name

    def free_biases(self) -> int:
        """Turn the float bias of a quantized Gemm into an Add where no QuantizeLinear follows: with
        it, ONNX Runtime would compute the product in floats.
        """
        products = [node for node in self.graph.nodes if node.op_type == "Gemm"]
        split = [node for node in products if self._blocks_integer_kernel(node)]
        for node in split:
            self._split_bias(node)
        return len(split)

    def _blocks_integer_kernel(self, node: Node) -> bool:
        if len(node.inputs) < 3 or node.attrs.get("beta", 1.0) != 1.0:
            return False
        first, second, bias = (self._find_dequantize(name) for name in node.inputs)
        if first is None or second is None or bias is not None:
            return False
        return self._constant_value(first.inputs[1]) is None or not self._is_requantized(node)

    def _is_requantized(self, node: Node) -> bool:
        """Whether the product is quantized again, at most behind a Relu that changes no code."""
        after = self._only_reader(node.outputs[0])
        relu = after is not None and after.op_type == "Relu"
        if after is not None and relu:
            after = self._only_reader(after.outputs[0])
        if after is None or after.op_type != "QuantizeLinear":
            return False
        if self._constant_value(after.inputs[1]) is None:
            return False
        zero = self._constant_value(after.inputs[2]) if len(after.inputs) > 2 else np.uint8(0)
        return not relu or (zero is not None and int(zero.max()) == np.iinfo(zero.dtype).min)

    def _split_bias(self, node: Node) -> None:
        graph, result, bias = self.graph, node.outputs[0], node.inputs[2]
        product = self._new_result(f"{result}_product", result, node)
        editing.set_inputs(graph, node, node.inputs[:2])
        node.outputs = [product]
        node.attrs.pop("beta", None)
        name = graph.node_names.make_unique("Add")
        added = Node("Add", [product, bias], [result], name=name, origin=node.origin)
        editing.place_after(graph, added, after=node)

    def _find_dequantize(self, name: str) -> Node | None:
        """The DequantizeLinear of bytes, or of int32, that makes a result."""
        node: Any = self.graph.values[name].producer
        if node is None or node.op_type != "DequantizeLinear":
            return None
        return node if self.graph.values[node.inputs[0]].dtype in (*_BYTES, dtypes.int32) else None

    def _only_reader(self, name: str) -> Node | None:
        readers = self.graph.uses(name)
        if len(readers) != 1 or name in self.outputs or readers[0].inputs.count(name) != 1:
            return None
        return readers[0]

    def _constant_value(self, name: str) -> Any:
        """The value of a readable constant, else None."""
        try:
            return self.graph.get_constant(name) if self.graph.is_constant(name) else None
        except BuilderError:
            return None
