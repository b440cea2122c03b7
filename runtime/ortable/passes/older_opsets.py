"""Write a graph in an opset older than those of the converters: 13 to 17.

The graph is built and optimized at opset 18. Then each node whose operator changed since the older
opset gets the form of that opset, from the rows of `ortable_generated.older_opsets`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import lru_cache
from string import Template
from typing import Any

import numpy as np
from onnx import FunctionProto, NodeProto, parser

from ortable import dtypes
from ortable.errors import BuilderError
from ortable.ir import Graph, casts, schemas
from ortable.ir.captures import find_subgraphs
from ortable.ir.node import Node, fx_node_name
from ortable.ir.proto.read_model import read_attribute
from ortable.ir.versions import OLDEST_TARGET_OPSET
from ortable_generated.older_opsets import OLDER


def write_in_older_opset(graph: Graph, opset: int) -> None:
    """Change a graph of opset 18 to an older opset, in place.

    Args:
        graph: the graph, without local functions.
        opset: the opset, 13 to 17.

    Raises:
        BuilderError: the opset has no form of a node; `fx_node` names the node that it was made
            for.
    """
    graph.opsets[""] = opset
    _change_nodes(graph, opset)


def _change_nodes(graph: Graph, opset: int) -> None:
    nodes, graph.nodes[:] = list(graph.nodes), []
    graph.outdate_uses()
    for node in nodes:
        for inner in find_subgraphs(node) if node.attrs else ():
            if not isinstance(inner, Graph):  # a GraphProto, which passes do not edit
                raise BuilderError(f"Opset {opset} cannot express a subgraph of {node.op_type}.")
            _change_nodes(inner, opset)
        since = None if node.domain else schemas.since_version(node.op_type, OLDEST_TARGET_OPSET)
        if since is None or since <= opset:
            graph.nodes.append(node)
            continue
        try:
            _NodeChange(graph, node, opset).write_nodes()
        except BuilderError as error:
            error.fx_node = error.fx_node or fx_node_name(node.origin)
            raise
    graph.outdate_uses()


class _NodeChange:
    """The change of one node: adds nodes that make its results in the older opset."""

    def __init__(self, graph: Graph, node: Node, opset: int) -> None:
        self.graph = graph
        self.node = node
        self.opset = opset
        self.schema = schemas.find_schema(node.op_type, "", OLDEST_TARGET_OPSET)
        self.defaults = schemas.default_attributes(node.op_type, OLDEST_TARGET_OPSET)

    def write_nodes(self) -> None:
        """Add the nodes; their results have the names and the facts of the node's results."""
        graph, node = self.graph, self.node
        row = self.find_row()
        facts = {name: graph.values.pop(name) for name in node.outputs if name}
        origin, graph.origin = graph.origin, node.origin
        try:
            if "body" in row:
                self.write_body(row)
            elif "lower" in row:
                _LOWERINGS[row["lower"]](self)
            else:
                self.make_node(*self.older_arguments(row))
        finally:
            graph.origin = origin
            for name, info in facts.items():  # an error message reads them, too
                new_info = graph.values.setdefault(name, info)
                new_info.dtype = new_info.dtype or info.dtype
                if info.shape is not None and new_info.shape is None:
                    graph.set_shape(name, info.shape)

    def find_row(self) -> Mapping[str, Any]:
        """Return the first row of the operator that holds; an empty one if there is none."""
        for row in OLDER.get(self.node.op_type, ()):
            conditions = row.get("when", {}).items()
            holds = all(self.attribute_value(name) == value for name, value in conditions)
            if self.opset < row["before"] and holds:
                return row
        return {}

    def attribute_value(self, name: str) -> Any:
        """Return the value of an attribute, or its default; None if it has neither."""
        return self.node.attrs.get(name, self.defaults.get(name))

    def make_node(self, inputs: Sequence[str], attrs: Mapping[str, Any]) -> None:
        """Add a node of the same operator that makes the results."""
        self.add_node(self.node.op_type, inputs, list(self.node.outputs), attrs)

    def add_node(
        self,
        op_type: str,
        inputs: Sequence[str],
        outputs: list[str] | None,
        attrs: Mapping[str, Any],
    ) -> Any:
        """Add a node and return its results.

        Integers that the older schema does not allow are cast to a wider type, and the result back.
        """
        graph = self.graph
        rows = [row for row in OLDER.get(op_type, ()) if self.opset < row["before"]]
        wide = rows[0].get("through") if rows else None
        dtype = graph.values[inputs[0]].dtype if inputs and inputs[0] else None
        if wide is None or dtype not in _SMALL_INTEGERS:
            return graph.make_node(op_type, inputs, outputs, **attrs)
        wide_inputs = [graph.make_node("Cast", [item], to=getattr(dtypes, wide)) for item in inputs]
        result = graph.make_node(op_type, wide_inputs, **attrs)
        return graph.make_node("Cast", [result], outputs, to=dtype)

    def input_name(self, index: int) -> str:
        """Return the name of an input, "" if the node has no such input."""
        return self.node.inputs[index] if index < len(self.node.inputs) else ""

    def read_constant(self, index: int) -> np.ndarray:
        """Return the value of an input that must be constant in the older opset."""
        name = self.input_name(index)
        if not self.graph.is_constant(name):
            assert self.schema is not None
            raise self.make_refusal(
                f"its input {self.schema.formal_input(index).name} is not constant"
            )
        return self.graph.get_constant(name)

    def make_refusal(self, reason: str) -> BuilderError:
        """Return the error of a node that the older opset cannot express."""
        return BuilderError(f"Opset {self.opset} cannot express {self.node.op_type}: {reason}.")

    def input_rank(self) -> int:
        """Return the rank of the first input."""
        if not self.graph.has_rank(self.input_name(0)):
            raise self.make_refusal("the rank of its input is not known")
        return self.graph.get_rank(self.input_name(0))

    def older_arguments(self, row: Mapping[str, Any]) -> tuple[list[str], dict[str, Any]]:
        """Return inputs and attributes without those that are new and have their defaults."""
        inputs, attrs = list(self.node.inputs), dict(self.node.attrs)
        for name, values in row.get("refuse", {}).items():
            if self.attribute_value(name) in values:
                raise self.make_refusal(f"{name} {self.attribute_value(name)!r} came later")
        for name, value in row.get("drop", {}).items():
            if self.attribute_value(name) not in (value, None):
                raise self.make_refusal(f"{name} {self.attribute_value(name)!r} came later")
            attrs.pop(name, None)
        for name in row.get("attributes", ()):
            assert self.schema is not None
            index = [formal.name for formal in self.schema.inputs].index(name)
            if self.input_name(index):
                attrs[name] = self.read_constant(index).reshape(-1).tolist()
                inputs[index] = ""
            if attrs.pop("noop_with_empty_axes", 0) and not attrs.get(name):
                raise self.make_refusal("it reduces nothing, because it has no axes")
            if not attrs.get(name):
                attrs.pop(name, None)
        return inputs, attrs

    # -- bodies in ONNX's textual syntax

    def write_body(self, row: Mapping[str, Any]) -> None:
        """Add the nodes of a body."""
        graph, node = self.graph, self.node
        function = _parse_body(
            Template(row["body"]).substitute(self.texts_of_body(row)), node.op_type
        )
        if len(node.inputs) > len(function.input) or len(node.outputs) > len(function.output):
            raise self.make_refusal("it has inputs or outputs that no row of the table writes")
        names = {
            formal: self.input_name(index) or self.make_default(row, index)
            for index, formal in enumerate(function.input)
        }
        pairs = zip(function.output, node.outputs, strict=False)
        results = {formal: name for formal, name in pairs if name}
        for proto in _needed_nodes(function, results):
            inputs = [names[name] for name in proto.input]
            attrs = {attribute.name: read_attribute(attribute) for attribute in proto.attribute}
            (formal,) = proto.output
            result = results.get(formal)
            if proto.op_type == "Cast" and attrs["to"] == graph.values[inputs[0]].dtype:
                names[formal] = inputs[0]  # the type is right already
                if result is None:
                    continue
            outputs = None if result is None else [result]
            names[formal] = self.add_node(proto.op_type, inputs, outputs, attrs)

    def texts_of_body(self, row: Mapping[str, Any]) -> dict[str, str]:
        """Return the texts that replace the names of a body."""
        values = {**row.get("defaults", {}), **self.defaults}
        values |= {k: v for k, v in self.node.attrs.items() if isinstance(v, int | float | str)}
        for name, texts in row.get("names", {}).items():
            values[name] = texts[values[name]]
        dtype = self.graph.values[self.input_name(0)].dtype
        wide = _WIDE_DTYPES.get(dtype or 0, dtype)
        texts = {name: str(value) for name, value in values.items()}
        if isinstance(values.get("axis"), int):
            axis = values["axis"]
            axes = range(axis if axis < 0 else axis - self.input_rank(), 0)
            texts["trailing"] = ", ".join(map(str, axes))
        return {**texts, "dtype": str(dtype), "wide": str(wide)}

    def make_default(self, row: Mapping[str, Any], index: int) -> str:
        """Return a constant for an input that the node leaves out."""
        assert self.schema is not None
        formal = self.schema.formal_input(index)
        dtype = formal.dtype or self.graph.values[self.input_name(0)].dtype
        assert dtype is not None
        value = np.array(row["defaults"][formal.name], dtypes.to_numpy(dtype))
        return self.graph.make_initializer("", value)


_SMALL_INTEGERS = (dtypes.int8, dtypes.uint8, dtypes.int16, dtypes.uint16)
# types in which bodies compute: ONNX Runtime has no Where of booleans
_WIDE_DTYPES = {
    **dict.fromkeys(casts.HALF_DTYPES, dtypes.float32),
    dtypes.boolean: dtypes.uint8,
}


def _needed_nodes(function: FunctionProto, results: Collection[str]) -> list[NodeProto]:
    """Return the nodes of a body on which results depend, in order."""
    needed, nodes = set(results), []
    for node in reversed(function.node):
        if not needed.isdisjoint(node.output):
            needed.update(node.input)
            nodes.append(node)
    return nodes[::-1]


@lru_cache(maxsize=256)
def _parse_body(body: str, op_type: str) -> FunctionProto:
    return parser.parse_function(f'<domain: "older", opset_import: ["": 13]> {op_type} {body}')


# -- operators that the table's language cannot write


def _write_cast_like(change: _NodeChange) -> None:
    source, target = change.node.inputs
    dtype = change.graph.values[target].dtype
    if dtype is None:
        raise change.make_refusal("the type of its input target_type is not known")
    change.graph.make_node("Cast", [source], list(change.node.outputs), to=dtype)


def _write_pad(change: _NodeChange) -> None:
    """Write pads of some axes as pads of all axes."""
    graph, inputs = change.graph, list(change.node.inputs)
    if change.input_name(3):
        rank = change.input_rank()
        axes = change.read_constant(3).reshape(-1) % rank
        indices = np.concatenate([axes, axes + rank]).astype(np.int64)
        pads = np.zeros(2 * rank, np.int64)
        if graph.is_constant(inputs[1]):
            pads[indices] = change.read_constant(1)
            inputs[1] = graph.make_initializer("", pads)
        else:
            constants = [graph.make_initializer("", array) for array in (pads, indices)]
            inputs[1] = graph.make_node("ScatterElements", [*constants, inputs[1]], axis=0)
    change.make_node(inputs[:3], change.node.attrs)


def _write_reshape(change: _NodeChange) -> None:
    """Leave out `allowzero`; sizes that depend on the input are taken to be above 0."""
    attrs = dict(change.node.attrs)
    if attrs.pop("allowzero", 0):
        target = change.graph.values[change.input_name(1)]
        is_constant = change.graph.is_constant(change.input_name(1))
        sizes = change.read_constant(1).tolist() if is_constant else target.value
        if sizes is None or 0 in [size for size in sizes if isinstance(size, int)]:
            raise change.make_refusal("a size of its result may be 0, which allowzero says")
    change.make_node(change.node.inputs, attrs)


def _write_split(change: _NodeChange) -> None:
    """Write the number of parts as their sizes, unless all parts are equal."""
    graph, inputs, attrs = change.graph, list(change.node.inputs), dict(change.node.attrs)
    count = attrs.pop("num_outputs", None)
    if count is not None:
        axis = attrs.get("axis", 0)
        size = graph.get_shape(inputs[0])[axis] if graph.has_shape(inputs[0]) else None
        if not isinstance(size, int):
            raise change.make_refusal(
                f"the size of axis {axis}, of which it makes parts, is not fixed"
            )
        part = -(-size // count)
        if size % count:
            sizes = [part] * (count - 1) + [size - part * (count - 1)]
            inputs[1:] = [graph.make_initializer("", np.array(sizes, np.int64))]
    change.make_node(inputs, attrs)


_LOWERINGS: Mapping[str, Callable[[_NodeChange], None]] = {
    "cast_like": _write_cast_like,
    "pad": _write_pad,
    "reshape": _write_reshape,
    "split": _write_split,
}
