"""export_modules_as_functions: every submodule becomes a local function of the model, called where
torch calls the module. Functions of torch.nn modules take their weights as inputs, those of other
modules hold them; equal functions are one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.fx import Node

from .. import dims
from ..builder import GraphBuilder
from ..errors import ExportError
from ..interpreter import DynamoInterpreter, results
from ..interpreter.arguments import convert_arguments
from ..interpreter.control_flow import count_outputs
from ..interpreter.modules import is_guard
from ..interpreter.mutation import find_attribute
from ..interpreter.origin import metadata_reader
from .inputs import name_inputs, name_outputs
from .program import Program

DOMAIN = "aten_local_function"


def convert_with_functions(
    builder: Any,
    program: Program,
    dispatcher: Any,
    input_names: Sequence[str] | None,
    output_names: Sequence[str] | None,
    optimize: bool,
) -> None:
    """Convert ``program`` with one local function for each submodule that it calls.

    Raises ExportError for a graph without submodules to tell apart (a GraphModule), and for one
    that writes in place: a function could not return the new values.
    """
    if program.exported is None:
        raise ExportError(
            "export_modules_as_functions needs a module or an exported program: the graph given "
            "has lost its submodules"
        )
    changed = [output.target for output in program.outputs if output.kind != "user"]
    if changed:
        raise ExportError(
            "export_modules_as_functions cannot return what the model changes in place: "
            f"{', '.join(changed)}"
        )
    root = torch.export.unflatten(program.exported)
    inputs = name_inputs([str(node.target) for node in program.onnx_inputs()], input_names)
    labels = [None if output.is_none else f"output_{i}" for i, output in enumerate(program.outputs)]
    interpreter = _Functions(
        builder,
        None,
        dispatcher,
        input_names=inputs,
        output_names=name_outputs(labels, output_names),
    )
    interpreter.optimize = optimize
    interpreter.run(root)


class _Functions(DynamoInterpreter):
    """An interpreter that turns ``call_module`` into a call of a local function."""

    optimize = False
    takes_weights = False

    def run_body(self, module: Any) -> list[tuple[str, Any]]:
        """Convert the graph of a submodule; returns the weights that became inputs, with their
        paths."""
        self.weights: list[tuple[str, Any]] = []
        self.enter(module)
        for node in module.graph.nodes:
            self.run_node(node)
        return self.weights

    def get_attr(self, node: Node) -> Any:
        """A weight: an input of the function for torch.nn modules, a constant otherwise."""
        if not self.takes_weights:
            return super().get_attr(node)
        path = str(node.target)
        tensor = find_attribute(self.owner, path)
        if not isinstance(tensor, torch.Tensor) or not node.users:
            return tensor if node.users else None
        name = self.builder.unique_name(path)
        dtype, shape = results.tensor_type(tensor, None)
        self.weights.append((path, tensor))
        return self.builder.make_tensor_input(name, dtype, shape)

    def call_module(self, node: Node) -> Any:
        """The call of the local function of a submodule, made at its first call."""
        module = find_attribute(self.owner, str(node.target), None)
        if is_guard(module) or not node.users:
            return None
        name, weights, kept = self.function(node, module)
        args, kwargs = convert_arguments(node, self.values, self.rename)
        operands = [self.operand(value) for value in [*args, *kwargs.values()] if is_operand(value)]
        path = f"{self._prefix}{node.target}."
        operands += [self.make_weight(path + target, tensor) for target, tensor in weights]
        value = results.node_value(node)
        res = results.record_of(self.builder, node, value, self.rename)
        names = [res.outputs[i] or self.builder.unique_name(f"{node.name}_{i}") for i in kept]
        self.builder.make_node(name, operands, names, domain=DOMAIN, name=node.name)
        found = dict(zip(kept, names, strict=True))
        items = list(value) if isinstance(value, (list, tuple)) else [value]
        returned = [
            found[i] if results.is_tensor_like(item) else dims.from_torch(item, self.rename)
            if isinstance(item, (int, torch.SymInt)) else item
            for i, item in enumerate(items)
        ]  # fmt: skip
        self.compare(node, res, returned)
        return returned if isinstance(value, (list, tuple)) else returned[0]

    def function(self, node: Node, module: Any) -> tuple[str, list[tuple[str, Any]], list[int]]:
        """Name of the function of ``module``, the weights to pass to it, and which of its outputs
        it has."""
        kind = module_type(module)
        body = GraphBuilder(
            {domain: v for domain, v in self.builder.opsets.items() if domain != DOMAIN},
            target=self.builder.target,
            kernel_table=self.builder.kernel_table,
        )
        body.functions = self.builder.functions
        body.origin_metadata = metadata_reader()
        inner = _Functions(body, dispatcher=self.dispatcher, tables=self.tables)
        inner.rename, inner._converters = self.rename, self._converters
        inner.optimize = self.optimize
        inner.takes_weights = kind.startswith("torch.nn.")
        inner._prefix = f"{self._prefix}{node.target}."
        count = count_outputs(module)
        inner.output_names = ["output"] if count == 1 else [f"output_{i}" for i in range(count)]
        weights = inner.run_body(module)
        if self.optimize:
            body.optimize()
        kept = [record.index for record in inner.outputs if record.name is not None]
        return self.add_function(body, function_name(kind)), weights, kept

    def add_function(self, body: Any, name: str) -> str:
        """Add the function under ``name``, or under a variation when another function has it;
        returns the name."""
        number = 0
        chosen = name
        while True:
            proto = body.to_function(chosen, DOMAIN)
            known = self.builder.functions.get((DOMAIN, chosen))
            if known is None:
                self.builder.add_function(proto)
                return chosen
            if _same_function(known, proto):
                return chosen
            number += 1
            chosen = f"{name}_{number}"

    def operand(self, value: Any) -> str:
        """A result for an input of a function: results as they are, dimensions as int64[1]
        vectors."""
        return value if isinstance(value, str) else self.builder.dim_as_vector(value)

    def make_weight(self, path: str, tensor: Any) -> str:
        """The initializer of a weight in this graph, under its path in the state_dict."""
        return self.make_initializer(path, tensor)


def is_operand(value: Any) -> bool:
    """True for what a local function takes as an input: results and dimensions; numbers are baked
    into its body."""
    return isinstance(value, (str, dims.SymDim))


def module_type(module: Any) -> str:
    """Full class name of a module of ``torch.export.unflatten``, as torch recorded it."""
    name = getattr(module, "type_name", None)
    return (name() if callable(name) else None) or type(module).__qualname__


def function_name(kind: str) -> str:
    """``Linear`` for ``torch.nn.modules.linear.Linear``; a local class keeps the ``<locals>.`` in
    front."""
    parts = kind.split(".")
    return ".".join(parts[-2:]) if len(parts) > 1 and parts[-2] == "<locals>" else parts[-1]


def _same_function(a: Any, b: Any) -> bool:
    """True when two functions compute the same, whatever their inner results are called."""
    return _canonical(a) == _canonical(b)


def _canonical(function: Any) -> bytes:
    """The function without provenance and names of nodes, its results numbered in order."""
    proto = type(function)()
    proto.CopyFrom(function)
    del proto.value_info[:]
    numbers: dict[str, str] = {"": ""}
    _number(proto.input, numbers)
    for node in proto.node:
        node.name = ""
        del node.metadata_props[:]
        _number(node.input, numbers)
        _number(node.output, numbers)
    _number(proto.output, numbers)
    return bytes(proto.SerializeToString(deterministic=True))


def _number(names: Any, numbers: dict[str, str]) -> None:
    for index, name in enumerate(names):
        names[index] = numbers.setdefault(name, f"#{len(numbers)}")
