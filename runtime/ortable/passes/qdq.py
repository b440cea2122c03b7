"""Rewrite a quantized graph so that ONNX Runtime selects integer kernels; values do not change.

The pass converts int8 codes (quantized values) to uint8, and moves Reshape and float biases out of
the patterns that ONNX Runtime fuses.
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
from ortable_generated.onnx.traits import MOVES_ELEMENTS, MULTIPLIES_CODES, REARRANGES

from .unused_nodes import remove_unused

_BYTE_DTYPES = (dtypes.uint8, dtypes.int8)


def arrange_quantized(graph: Graph) -> int:
    """Rewrite the quantized patterns of a graph and its subgraphs for ONNX Runtime.

    Args:
        graph: the graph, edited in place.

    Returns:
        The number of rewrites.
    """
    inner_rewrites = 0
    has_dequantize = False
    for node in graph.nodes:
        has_dequantize = has_dequantize or node.op_type == "DequantizeLinear"
        for inner in inner_graphs(node) if node.attrs else ():
            inner_rewrites += arrange_quantized(inner)
    if not has_dequantize:
        return inner_rewrites
    remove_unused(graph)
    rewriter = _QdqRewriter(graph)
    gemms = [node for node in graph.nodes if node.op_type == "Gemm"]
    rewrites = sum(rewriter.lift_reshape(node) for node in gemms)
    rewrites += sum(
        rewriter.make_unsigned(node) for node in graph.nodes if node.op_type == "QuantizeLinear"
    )
    rewrites += rewriter.make_weights_unsigned()
    rewrites += rewriter.make_moved_unsigned()
    rewrites += sum(rewriter.sink_reshape(node) for node in gemms)
    rewrites += rewriter.free_biases()
    if rewrites:
        editing.invalidate_history(graph)
    return inner_rewrites + rewrites


class _QdqRewriter:
    """Rewriter of the quantized patterns of one graph, without its subgraphs."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.outputs = {info.name for info in graph.outputs}

    def make_unsigned(self, node: Node) -> bool:
        """Convert int8 codes to uint8 by adding 128 to their zero points and to the bounds of Clip.

        Every reader has to be a DequantizeLinear, directly or after Clips and nodes that only move
        elements. On x86, ONNX Runtime has integer convolutions for unsigned activations only.
        """
        graph, worklist, constants_to_shift = self.graph, [node.outputs[0]], [(node, 2)]
        if graph.values[worklist[0]].dtype != dtypes.int8 or graph.is_constant(worklist[0]):
            return False
        for name in worklist:  # the loop body appends to it
            readers = graph.uses(name)
            if name in self.outputs or not readers:
                return False
            for reader in readers:
                if reader.op_type == "DequantizeLinear":
                    constants_to_shift.append((reader, 2))
                elif reader.op_type == "Clip" and len(reader.inputs) == 3:
                    constants_to_shift += [(reader, 1), (reader, 2)]
                elif reader.key not in REARRANGES:
                    return False
                if reader.op_type != "DequantizeLinear":
                    worklist.append(reader.outputs[0])
        shifted = [self._shift_constant(*operand) for operand in constants_to_shift]
        if any(shifted_value is None for shifted_value in shifted):
            return False
        for (consumer, index), shifted_value in zip(constants_to_shift, shifted, strict=True):
            inputs = consumer.inputs + [""] * (index + 1 - len(consumer.inputs))
            inputs[index] = graph.make_initializer("", shifted_value)
            editing.set_inputs(graph, consumer, inputs)
        for name in worklist:
            graph.values[name].dtype = dtypes.uint8
        return True

    def _shift_constant(self, node: Node, index: int) -> np.ndarray | None:
        """Return an input plus 128 as uint8 (128 if it is omitted); None if it is no constant."""
        name = node.inputs[index] if index < len(node.inputs) else ""
        if name == "":
            return np.array(128, np.uint8)
        value = self._constant_value(name)
        return None if value is None else (value.astype(np.int16) + 128).astype(np.uint8)

    def make_weights_unsigned(self) -> int:
        """Convert int8 codes that are multiplied by uint8 codes to uint8; return how many.

        Without VNNI, ONNX Runtime's uint8 x int8 kernels add two products in 16 bits, which can
        overflow; its uint8 x uint8 kernels are exact on every CPU.
        """
        dequantize_nodes: dict[Node, None] = {}
        for node in self.graph.nodes:
            if node.key in MULTIPLIES_CODES:
                first_dequantize, second_dequantize = (
                    self._codes_of(name) for name in node.inputs[:2]
                )
                if first_dequantize is not None and second_dequantize is not None:
                    code_dtypes = [
                        self.graph.values[source.inputs[0]].dtype
                        for source in (first_dequantize, second_dequantize)
                    ]
                    is_local = self.graph.is_own(second_dequantize.outputs[0])
                    if is_local and code_dtypes == [dtypes.uint8, dtypes.int8]:
                        dequantize_nodes[second_dequantize] = None
        return sum(self._make_codes_unsigned(node) for node in dequantize_nodes)

    def make_moved_unsigned(self) -> int:
        """Convert int8 codes that are no constants and are moved once they are numbers.

        From opset 21 on, ONNX Runtime's QDQPropagationTransformer moves the codes instead, and
        makes a QuantizeLinear of a dtype that another optimizer changes: the model does not load.
        """
        graph = self.graph
        return sum(
            self._make_codes_unsigned(node)
            for node in [node for node in graph.nodes if node.op_type == "DequantizeLinear"]
            if graph.opsets[""] >= 21
            and len(node.inputs) == 3
            and graph.values[node.inputs[0]].dtype == dtypes.int8
            and not graph.is_constant(node.inputs[0])
            and any(
                reader.key in MOVES_ELEMENTS or reader.op_type == "MaxPool"
                for reader in graph.uses(node.outputs[0])
            )
        )

    def _codes_of(self, name: str) -> Node | None:
        """Find the DequantizeLinear of a result, looking through nodes that move elements."""
        node: Any = self.graph.values[name].producer
        while node is not None and node.key in REARRANGES:
            node = self.graph.values[node.inputs[0]].producer
        return None if node is None else self._find_dequantize(node.outputs[0])

    def _make_codes_unsigned(self, node: Node) -> bool:
        """Convert the int8 codes of a DequantizeLinear to uint8 without changing its result."""
        graph, inputs = self.graph, list(node.inputs)
        if len(inputs) < 3 or not inputs[2]:
            scale_shape = graph.get_shape(inputs[1]) if graph.has_shape(inputs[1]) else None
            if scale_shape is None or not all(isinstance(size, int) for size in scale_shape):
                return False
            zero_point = graph.make_initializer("", np.full(scale_shape, 128, np.uint8))
            inputs = [*inputs[:2], zero_point]
        else:
            inputs[2] = self._plus_128(inputs[2], node)
        inputs[0] = self._plus_128(inputs[0], node)
        editing.set_inputs(graph, node, inputs)
        return True

    def _plus_128(self, codes: str, reader: Node) -> str:
        """Return int8 codes plus 128 as uint8: a new constant, or nodes before ``reader``."""
        graph, value = self.graph, self._constant_value(codes)
        if value is not None:
            return graph.make_initializer("", (value.astype(np.int16) + 128).astype(np.uint8))
        sign_bit = graph.make_initializer("", np.array(128, np.uint8))
        cast = self._insert_node(reader, "Cast", [codes], {"to": int(dtypes.uint8)})
        return self._insert_node(reader, "BitwiseXor", [cast, sign_bit], {})

    def _insert_node(self, reader: Node, op_type: str, inputs: list[str], attrs: Any) -> str:
        """Insert a node before ``reader``; its uint8 result has the shape of the first input."""
        graph, name = self.graph, self.graph.node_names.make_unique(op_type)
        inserted = Node(op_type, inputs, [""], name=name, attrs=attrs, origin=reader.origin)
        inserted.outputs = [self._new_result(f"{inputs[0]}_{op_type}", inputs[0], inserted)]
        graph.values[inserted.outputs[0]].dtype = dtypes.uint8
        editing.place_after(graph, inserted, after=reader)
        editing.place_after(graph, reader, after=inserted)
        return inserted.outputs[0]

    def lift_reshape(self, node: Node) -> bool:
        """Move the Reshape between a DequantizeLinear and a Gemm before the DequantizeLinear."""
        graph = self.graph
        reshape: Any = graph.values[node.inputs[0]].producer
        if reshape is None or reshape.op_type != "Reshape" or not graph.is_own(node.inputs[0]):
            return False
        dequantize = self._find_dequantize(reshape.inputs[0])
        if dequantize is None or graph.get_rank(dequantize.inputs[1]) > 0:
            return False
        gemm_input, codes = reshape.outputs[0], dequantize.inputs[0]
        reshaped_codes = self._new_result(f"{codes}_rows", gemm_input, reshape)
        graph.values[reshaped_codes].dtype = graph.values[codes].dtype
        name = graph.node_names.make_unique("DequantizeLinear")
        new_dequantize = Node(
            dequantize.op_type,
            [reshaped_codes, *dequantize.inputs[1:]],
            [gemm_input],
            name=name,
            origin=dequantize.origin,
        )
        editing.set_inputs(graph, reshape, [codes, *reshape.inputs[1:]])
        reshape.outputs = [reshaped_codes]
        editing.place_after(graph, new_dequantize, after=reshape)
        if not graph.uses(dequantize.outputs[0]) and dequantize.outputs[0] not in self.outputs:
            editing.remove_nodes(graph, [dequantize])
        return True

    def sink_reshape(self, node: Node) -> bool:
        """Move the Reshape between a Gemm and a QuantizeLinear after the QuantizeLinear.

        A Relu may precede the QuantizeLinear. Without the Reshape in between, ONNX Runtime fuses
        the Gemm with the QuantizeLinear.
        """
        reshape = self._only_reader(node.outputs[0])
        if reshape is None or reshape.op_type != "Reshape":
            return False
        quantize = self._only_reader(reshape.outputs[0])
        between_nodes: list[Node] = []
        if quantize is not None and quantize.op_type == "Relu":
            between_nodes.append(quantize)
            quantize = self._only_reader(quantize.outputs[0])
        if quantize is None or quantize.op_type != "QuantizeLinear":
            return False
        if (
            self._find_dequantize(node.inputs[1]) is None
            or self.graph.get_rank(quantize.inputs[1]) > 0
        ):
            return False
        previous = node.outputs[0]
        for follower in (*between_nodes, quantize):
            editing.set_inputs(self.graph, follower, [previous, *follower.inputs[1:]])
            previous = follower.outputs[0]
            if follower is not quantize:
                self._copy_shape(node.outputs[0], previous)
        del self.graph.values[reshape.outputs[0]]
        flat_codes = self._new_result(f"{previous}_rows", node.outputs[0], quantize)
        self.graph.values[flat_codes].dtype = self.graph.values[previous].dtype
        editing.set_inputs(self.graph, reshape, [flat_codes, *reshape.inputs[1:]])
        quantize.outputs, reshape.outputs = [flat_codes], [previous]
        editing.place_after(self.graph, reshape, after=quantize)
        return True

    def _copy_shape(self, source: str, target: str) -> None:
        source_info, target_info = self.graph.values[source], self.graph.values[target]
        target_info.shape, target_info.rank = source_info.shape, source_info.rank

    def _new_result(self, prefix: str, like: str, producer: Node) -> str:
        """Add a result with the dtype and shape of ``like``; return its unique name."""
        name, info = self.graph.unique_name(prefix), self.graph.values[like]
        self.graph.values[name] = ValueInfo(
            name, info.dtype, info.shape, info.rank, None, None, producer
        )
        return name

    def free_biases(self) -> int:
        """Move the float bias of each quantized Gemm that no QuantizeLinear follows into an Add.

        With the bias, ONNX Runtime would compute the product in float.
        """
        gemms = [node for node in self.graph.nodes if node.op_type == "Gemm"]
        blocked = [node for node in gemms if self._blocks_integer_kernel(node)]
        for node in blocked:
            self._split_bias(node)
        return len(blocked)

    def _blocks_integer_kernel(self, node: Node) -> bool:
        """Whether a float bias prevents ONNX Runtime from running a Gemm on integers."""
        if len(node.inputs) < 3 or node.attrs.get("beta", 1.0) != 1.0:
            return False
        first_dequantize, second_dequantize, bias_dequantize = (
            self._find_dequantize(name) for name in node.inputs
        )
        if first_dequantize is None or second_dequantize is None or bias_dequantize is not None:
            return False
        return self._constant_value(first_dequantize.inputs[1]) is None or not self._is_requantized(
            node
        )

    def _is_requantized(self, node: Node) -> bool:
        """Whether a QuantizeLinear reads the result, directly or after a Relu that it replaces."""
        reader = self._only_reader(node.outputs[0])
        has_relu = reader is not None and reader.op_type == "Relu"
        if reader is not None and has_relu:
            reader = self._only_reader(reader.outputs[0])
        if reader is None or reader.op_type != "QuantizeLinear":
            return False
        if self._constant_value(reader.inputs[1]) is None:
            return False
        has_zero_point = len(reader.inputs) > 2
        zero_point = self._constant_value(reader.inputs[2]) if has_zero_point else np.uint8(0)
        return not has_relu or (
            zero_point is not None and int(zero_point.max()) == np.iinfo(zero_point.dtype).min
        )

    def _split_bias(self, node: Node) -> None:
        graph, result, bias = self.graph, node.outputs[0], node.inputs[2]
        product = self._new_result(f"{result}_product", result, node)
        editing.set_inputs(graph, node, node.inputs[:2])
        node.outputs = [product]
        node.attrs.pop("beta", None)
        name = graph.node_names.make_unique("Add")
        add = Node("Add", [product, bias], [result], name=name, origin=node.origin)
        editing.place_after(graph, add, after=node)

    def _find_dequantize(self, name: str) -> Node | None:
        """Find the DequantizeLinear of 8-bit or int32 codes that produces a result, or None."""
        node: Any = self.graph.values[name].producer
        if node is None or node.op_type != "DequantizeLinear":
            return None
        code_dtype = self.graph.values[node.inputs[0]].dtype
        return node if code_dtype in (*_BYTE_DTYPES, dtypes.int32) else None

    def _only_reader(self, name: str) -> Node | None:
        """Return the only reader of a result that is read once and is no output, else None."""
        readers = self.graph.uses(name)
        if len(readers) != 1 or name in self.outputs or readers[0].inputs.count(name) != 1:
            return None
        return readers[0]

    def _constant_value(self, name: str) -> Any:
        """Return the value of a constant; None if there is none or it cannot be computed."""
        try:
            return self.graph.get_constant(name) if self.graph.is_constant(name) else None
        except BuilderError:
            return None
