"""Choose the nodes of a float32 graph that compute in float32 when the graph becomes float16.

The reasons are rows of `ortable_generated.float16`, options of the caller, constants that float16
cannot hold, and ranges of values, measured on example inputs. `float16.py` changes the graph.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np

from ortable import dtypes
from ortable.errors import BuilderError
from ortable.ir import Graph, initializers
from ortable.ir.captures import captured_by_protos, captured_names, find_subgraphs
from ortable.ir.node import Node
from ortable.ir.schemas import find_schema
from ortable.passes.rewrite.helpers.quantized_weights import weight_name
from ortable.passes.weight_quantization import WeightOptions
from ortable_generated.float16 import FLOAT32, MASKS
from ortable_generated.kernels import KERNELS_CPU
from ortable_generated.onnx.traits import ELEMENTWISE, KEEPS_ORDER

MAX_FLOAT16 = 65504.0
MIN_FLOAT16 = 2.0**-14  # the smallest number with all digits
# Masks below the range of float16. A sum of three is finite, and the lowest float32 stays lowest.
MASK_VALUE, LOWEST_MASK = -16384.0, -16400.0
_LOWEST = float(np.finfo(np.float32).min)
_CHUNK_ELEMENTS = 1 << 18  # of a constant, at a time
_MAX_CONSTANT_ERROR = 1e-3  # relative; numbers with all digits have 2**-11 at most
_MAX_SOURCE_ELEMENTS = 1024  # a layer with a larger weight is no part of computing an angle

OUT_OF_RANGE = "a value is out of the range of float16"
_CONSTANT = "float16 cannot hold a constant"


class Signature:
    """The float32 inputs and outputs of a node that may be float16."""

    def __init__(self, graph: Graph, node: Node) -> None:
        formals = _formal_types(node.op_type, node.domain, graph.opsets.get(node.domain, 1))
        self.inputs: set[int] = set()
        self.outputs: set[int] = set()
        names = [name for name in (*node.inputs, *node.outputs) if name]
        is_known = all(graph.values[name].dtype for name in names)
        if formals is None or not is_known or find_subgraphs(node):
            return
        inputs, outputs, legal = formals
        halves = {param for param, allowed in legal.items() if dtypes.float16 in allowed}
        params = set()
        for index, name in enumerate(node.inputs):
            param = _formal_at(inputs, index)
            if param in halves and is_float32(graph, name):
                self.inputs.add(index)
                params.add(param)
        for index, name in enumerate(node.outputs):
            param = _formal_at(outputs, index)
            has_param = param in params or node.key == "Cast" or constant_of(node) is not None
            if node.op_type == "DequantizeLinear":
                has_param = bool(self.inputs) and "output_dtype" not in node.attrs
            if has_param and param in halves and is_float32(graph, name):
                self.outputs.add(index)


def _formal_at(formals: Sequence[Any], index: int) -> Any:
    formal = formals[min(index, len(formals) - 1)] if formals else None
    return formal.rstrip("*") if isinstance(formal, str) else None


@cache
def _formal_types(op_type: str, domain: str, opset: int) -> tuple[Any, Any, Any] | None:
    """Return type parameters of inputs and outputs and their dtypes; None if they are not known."""
    if domain not in ("", "com.microsoft"):
        return None
    try:
        schema = find_schema(op_type, domain, opset)
    except BuilderError:
        return None
    if schema is not None:
        inputs, outputs = ([x.param for x in part] for part in (schema.inputs, schema.outputs))
        return inputs, outputs, schema.legal
    rows = [row for row in KERNELS_CPU.get(f"{domain}::{op_type}", ()) if row[0] <= opset]
    return rows[-1][1:4] if rows else None


def is_float32(graph: Graph, name: str) -> bool:
    """Whether a name is a float32 tensor of the graph."""
    info = graph.values.get(name) if name else None
    return info is not None and info.dtype == dtypes.float32


def constant_of(node: Node) -> Any:
    """Return the float32 value of Constant and ConstantOfShape; None for other nodes and types."""
    value = node.attrs.get("value")
    if node.key == "Constant" and value is None:
        numbers = node.attrs.get("value_float", node.attrs.get("value_floats"))
        value = None if numbers is None else np.array(numbers, np.float32)
    elif node.key == "ConstantOfShape" and value is None:
        value = np.zeros(1, np.float32)
    is_constant = value is not None and node.key.startswith("Constant")
    return value if is_constant and initializers.dtype_of(value) == dtypes.float32 else None


def round_constant(value: Any, is_mask: bool = False) -> np.ndarray:
    """Return a float32 constant in float16, with numbers of masks in its range."""
    array = initializers.to_numpy(value)
    if is_mask:
        masks = np.where(array == _LOWEST, LOWEST_MASK, MASK_VALUE)
        array = np.where(np.isfinite(array) & (array < -MAX_FLOAT16), masks, array)
    with np.errstate(over="ignore"):
        return array.astype(np.float16)


def constant_error(value: Any) -> float:
    """Return the root mean square of what float16 changes in a constant, over that of the constant.

    Infinities and NaN are the same in float16, and do not count.
    """
    squared_error = squared_sum = 0.0
    for part in initializers.to_torch(value).detach().reshape(-1).split(_CHUNK_ELEMENTS):
        exact = part.double().nan_to_num(0.0, 0.0, 0.0)
        difference = exact.half().double() - exact
        squared_error += float(difference.dot(difference))
        squared_sum += float(exact.dot(exact))
    return (squared_error / squared_sum) ** 0.5 if squared_sum else 0.0


class Float16Plan:
    """The nodes of a graph that stay in float32, and the constants that are masks.

    ``reasons`` maps each node that stays to the reason. ``signatures`` has the inputs and outputs
    of each node that may be float16. ``masks`` are the names of constants and results that place
    masks of an attention.

    Args:
        graph: the main graph.
        options: which nodes and weights stay, as the caller wants it.
        ranges: the largest finite magnitude of float32 values, by name; values without an entry
            are taken to be in range.
    """

    def __init__(self, graph: Graph, options: WeightOptions, ranges: Mapping[str, float]) -> None:
        self.graph, self.options, self.ranges = graph, options, ranges
        self.signatures = {node: Signature(graph, node) for node in graph.nodes}
        self._inputs = {info.name for info in graph.inputs}
        self.outputs = {info.name for info in graph.outputs}
        self.errors: dict[str, float] = {}
        self.masks: set[str] = set()
        self.reasons: dict[Node, str] = {}
        self._softmax_paths: dict[str, bool] = {}
        self._find_masks()
        protos = captured_by_protos(graph.nodes)  # no pass renames what they read
        for node in graph.nodes:
            reason = self._find_reason(node, protos)
            if reason:
                self.reasons[node] = reason
        self._add_sources()
        self._add_neighbours()
        self.readers = self._find_readers()

    def input_type(self, node: Node, index: int) -> int:
        """Return the type in which a node reads a float32 input."""
        is_half = node not in self.reasons and node not in self.readers
        is_half = is_half and index in self.signatures[node].inputs
        return dtypes.float16 if is_half else dtypes.float32

    def output_type(self, node: Node, index: int) -> int:
        """Return the type in which a node makes a float32 output."""
        is_half = node not in self.reasons and index in self.signatures[node].outputs
        return dtypes.float16 if is_half else dtypes.float32

    def constant_error(self, name: str) -> float:
        """Return the error of an initializer in float16; see `constant_error`."""
        if name not in self.errors:
            self.errors[name] = constant_error(self.graph.initializers_dict[name])
        return self.errors[name]

    def float_inputs(self, node: Node) -> Iterator[str]:
        """Yield the float32 inputs of a node that are not constants."""
        for name in node.inputs:
            if is_float32(self.graph, name) and name not in self.graph.initializers_dict:
                yield name

    # -- masks

    def _find_masks(self) -> None:
        table = self.graph.initializers_dict
        for node in self.graph.nodes:
            rule = MASKS.get(node.key)
            if rule not in ("mask", "compare"):
                continue
            names = _mask_inputs(node)
            constants = [name for name in names if _is_mask(table.get(name))]
            has_mask = bool(constants) or not self.masks.isdisjoint(names)
            has_mask = has_mask or _is_mask(constant_of(node))
            if has_mask and (rule == "compare" or self._leads_to_softmax(node)):
                self.masks.update(constants)
                self.masks.update(node.outputs)

    def _leads_to_softmax(self, node: Node) -> bool:
        """Whether all that reads the result of a node ends in a softmax, for which masks are."""
        (name,) = node.outputs
        if name not in self._softmax_paths:
            readers = self.graph.uses(name)
            self._softmax_paths[name] = (
                bool(readers)
                and name not in self.outputs
                and all(
                    MASKS.get(reader.key) == "softmax"
                    or (MASKS.get(reader.key) == "compare" and self._can_compare(reader))
                    or (
                        MASKS.get(reader.key) == "mask"
                        and name in _mask_inputs(reader)
                        and self._leads_to_softmax(reader)
                    )
                    for reader in readers
                )
            )
        return self._softmax_paths[name]

    def _can_compare(self, node: Node) -> bool:
        """Whether a node compares masks with infinity or the lowest number only."""
        table = self.graph.initializers_dict
        values = [initializers.to_torch(table[name]) for name in node.inputs if name in table]
        is_limit = all(bool((value <= _LOWEST).all()) for value in values)
        return is_limit and (bool(values) or node.op_type == "IsInf")

    # -- reasons of single nodes

    def _find_reason(self, node: Node, protos: set[str]) -> str:
        """Return why a node stays in float32, or an empty text."""
        signature = self.signatures[node]
        floats = [name for name in (*node.inputs, *node.outputs) if is_float32(self.graph, name)]
        if not signature.inputs and not signature.outputs:
            return "" if not floats else _illegal_reason(node)
        if not protos.isdisjoint(node.outputs):
            return "a branch or loop reads it"
        if self._is_excluded(node):
            return "requested, or a weight stays"
        rule, why = FLOAT32.get(node.key, ("", ""))
        if rule == "reduction" and node.attrs.get("reduction", "none") not in ("none", b"none"):
            return why
        if rule in ("float32", "sources"):
            return why
        if not self.masks.isdisjoint(node.outputs):
            if all(self._is_in_range(name) for name in node.inputs):
                return ""
            self.masks.difference_update(node.outputs)
        is_cache = not self._inputs.isdisjoint(node.inputs[3:5])
        if rule == "cache" and self.options.keep_io and is_cache:
            return why
        if rule == "integers" and self.graph.values[node.inputs[0]].dtype in _WIDE_INTEGERS:
            return why
        if any(not self._is_in_range(name) for name in floats):
            return OUT_OF_RANGE
        for index in signature.inputs:
            name = node.inputs[index]
            is_constant = name in self.graph.initializers_dict
            if is_constant and self.constant_error(name) > _MAX_CONSTANT_ERROR:
                return _CONSTANT
        value = constant_of(node)
        has_error = value is not None and constant_error(value) > _MAX_CONSTANT_ERROR
        return _CONSTANT if has_error else ""

    def _is_excluded(self, node: Node) -> bool:
        names = (node.op_type, node.name, *node.outputs)
        patterns = self.options.keep_float32
        if any(fnmatch.fnmatchcase(name, pattern) for name in names for pattern in patterns):
            return True
        if self.options.kind != "float16":
            return False
        weights = [name for name in node.inputs if name in self.graph.initializers_dict]
        return any(
            is_matrix(self.graph, name) and not self.options.chooses(weight_name(name))
            for name in weights
        )

    def _is_in_range(self, name: str) -> bool:
        largest = self.ranges.get(name, 0.0)
        return name in self.masks or not largest or MIN_FLOAT16 <= largest <= MAX_FLOAT16

    # -- neighbours of nodes that stay

    def _add_sources(self) -> None:
        """Keep the operators in float32 that compute arguments of nodes with the rule sources."""
        pending = [
            (node, why)
            for node, why in self.reasons.items()
            if FLOAT32.get(node.key, ("",))[0] == "sources"
        ]
        while pending:
            node, why = pending.pop()
            for name in self.float_inputs(node):
                producer = self.graph.values[name].producer
                if producer is None or producer in self.reasons or not self._is_source(producer):
                    continue
                self.reasons[producer] = why
                pending.append((producer, why))

    def _is_source(self, node: Node) -> bool:
        table = self.graph.initializers_dict
        sizes = [initializers.size_of(table[name]) for name in node.inputs if name in table]
        rule = FLOAT32.get(node.key, ("",))[0]
        is_arithmetic = rule in ("angle", "integers") or _is_local(node)
        return is_arithmetic and max(sizes, default=0) <= _MAX_SOURCE_ELEMENTS

    def _add_neighbours(self) -> None:
        """Keep squares before nodes that stay, and elementwise operators behind them."""
        for node in list(self.reasons):
            if FLOAT32.get(node.key, ("",))[0] == "float32":
                self._add_squares(node)
        for node in self.graph.nodes:
            if not _is_local(node) or not self._is_free(node):
                continue
            producers = [self.graph.values[name].producer for name in self.float_inputs(node)]
            if producers and all(item in self.reasons for item in producers):
                self.reasons[node] = self.reasons[producers[0]]

    def _add_squares(self, node: Node) -> None:
        for name in self.float_inputs(node):
            producer, last, nodes = self.graph.values[name].producer, node, []
            while producer is not None and self._is_free(producer):
                result = producer.outputs[0]
                if result in self.outputs or self.graph.uses(result) != [last]:
                    break
                nodes.append(producer)
                if FLOAT32.get(producer.key, ("",))[0] == "square":
                    self.reasons.update(dict.fromkeys(nodes, self.reasons[node]))
                if producer.op_type not in KEEPS_ORDER or producer.domain:
                    break
                last, producer = producer, self.graph.values[producer.inputs[0]].producer

    def _find_readers(self) -> set[Node]:
        """Find nodes without float results that read float32 values: comparisons and casts."""
        types = dict.fromkeys(
            (info.name for info in self.graph.inputs if self.options.keep_io), dtypes.float32
        )
        readers = set()
        for node in self.graph.nodes:
            for index, name in enumerate(node.outputs):
                types[name] = self.output_type(node, index)
            is_wide = any(types.get(name) == dtypes.float32 for name in self.float_inputs(node))
            if is_wide and not self.signatures[node].outputs:
                readers.add(node)
        return readers

    def _is_free(self, node: Node) -> bool:
        return node not in self.reasons and self.masks.isdisjoint(node.outputs)


_WIDE_INTEGERS = (
    dtypes.int16, dtypes.int32, dtypes.int64, dtypes.uint16, dtypes.uint32, dtypes.uint64
)  # fmt: skip


def _is_local(node: Node) -> bool:
    return not node.domain and node.op_type in ELEMENTWISE | KEEPS_ORDER


def _illegal_reason(node: Node) -> str:
    if find_subgraphs(node):
        return "branches and loops stay"
    return "ONNX has no float16 here" if node.op_type != "Cast" else ""


def _mask_inputs(node: Node) -> list[str]:
    """Return the inputs of a node that may be masks; a product adds its last one."""
    return node.inputs[2:] if node.op_type == "Gemm" else node.inputs


def _is_mask(value: Any) -> bool:
    """Whether a float32 constant has finite numbers below the range of float16."""
    if value is None or initializers.dtype_of(value) != dtypes.float32:
        return False
    array = initializers.to_torch(value).detach()
    return bool((array.isfinite() & (array < -MAX_FLOAT16)).any())


def is_matrix(graph: Graph, name: str) -> bool:
    """Whether an initializer is a float32 weight that reports list: it has two axes or more."""
    value = graph.initializers_dict[name]
    shape = initializers.shape_of(value)
    is_float = initializers.dtype_of(value) == dtypes.float32
    return is_float and sum(size > 1 for size in shape) > 1


def read_in_subgraphs(graph: Graph) -> set[str]:
    """Return the names that subgraphs of nodes read, which stay in float32."""
    return {name for node in graph.nodes if node.attrs for name in captured_names(node)}
