"""DynamoInterpreter: one pass over the nodes of a torch.fx graph, one look-up and one plain call
for each. Shapes and types come from FX metadata, from the generated rules where FX has none, and
are compared with the builder's."""

from __future__ import annotations

import enum
import itertools
from typing import Any

import torch
from torch.fx import GraphModule, Node

from ortable.interpreter.diagnostics.origin import metadata_reader
from ortable.interpreter.mutation.in_place import HarmlessWrite
from ortable.interpreter.mutation.mutation import find_attribute
from ortable.ir.result import Res
from ortable.prelude.complex_value import ComplexValue

from .. import dims, dtypes
from ..errors import BuilderError, ConversionError, UnsupportedCase
from ..lowerings.indexing import getitem
from . import calls, complex_numbers, control_flow, outputs, results, scan
from .arguments import contains_result, convert_argument, convert_arguments
from .diagnostics import unsupported
from .inner import InnerGraphs
from .modules import is_guard, module_operands
from .mutation import writing_calls, written
from .numbers import numbers, symbolic
from .records import OutputRecord
from .tables import ASSERTIONS, METADATA_ONLY, Converter


class DynamoInterpreter(InnerGraphs):
    """Converts a ``torch.fx.GraphModule`` into nodes of a GraphBuilder.

    Args:
        builder: receives the nodes. Its ``rename_dims`` maps torch's symbols to names of
            dimensions.
        retriever: ``retriever(placeholder) -> tensor or None``; the tensor becomes an initializer,
            None an input.
        dispatcher: an object with ``find(name, target, native) -> converter or None``, asked for
            every overload.
        module: where ``get_attr`` and ``call_module`` look; the graph module itself unless given.
        tables: converters and rules; the generated ones unless given.
        converters: more converters, ``f(graph, res, *args, **kwargs)`` by overload name, in front
            of the tables'.
        input_names: FX placeholder target -> name of the ONNX input.
        initializer_names: FX placeholder target -> name of the initializer; the target unless
            given.
        output_names: name of each entry of the flattened output, in FX order; ``output_0``...
            unless given.
        output_order: the order in which ONNX outputs are declared, as indices of the flattened
            output.
        bypass_outputs: leave numbers, dimensions, None, inputs, initializers and duplicates out of
            the ONNX outputs: the records say what they are, and the caller hands them back.
        verbose: 2 prints each node.

    After ``run``: ``inputs`` and ``outputs`` (records, see ``records.py``), ``values`` (FX node ->
    result or number).

    Raises:
        FunctionNotFoundError: operators without a converter, all of them, before anything is
            converted.
        UnsupportedCase: a converter refuses its arguments.
        ConversionError: a converter failed or computes another type or shape than torch, or the
            graph writes in place.
    """

    # -- the whole graph

    def run(self, graph_module: Any) -> list[OutputRecord]:
        """Convert every node of ``graph_module``; returns the records of its outputs."""
        self.enter(graph_module)
        self.check(graph_module)
        self.builder.origin_metadata = metadata_reader()
        for name in [*self.input_names.values(), *(self.output_names or ())]:
            if name:
                self.builder.unique_name(name)  # taken, so that no intermediate result gets it
        for node in graph_module.graph.nodes:
            self.run_node(node)
        self.builder.origin = None
        return self.outputs

    def enter(self, graph_module: Any) -> None:
        """Make ``graph_module`` the graph that is converted, and this interpreter the one that
        lowerings of control flow call back."""
        self._enter(graph_module)
        self.plant(self.builder)

    def check(self, graph_module: GraphModule) -> None:
        """Raise for in-place writes, and for every operator without a converter, before anything is
        converted."""
        scan.check_writes(graph_module, self.tables, self.owner)
        missing = unsupported.collect(
            scan.missing_nodes(
                graph_module, self.tables, self.find_converter, self.leaf, self.owner
            )
        )
        if missing:
            self.builder.origin = missing[0].nodes[0]
            raise unsupported.not_found_error(missing, self.tables, self.builder.get_debug_msg())

    def run_node(self, node: Node) -> Any:
        """Convert one node; what it became is returned and kept in ``values``."""
        if node in self.values:
            return self.values[node]  # bound by the caller of a subgraph
        self.builder.origin = node
        if self.verbose > 1:
            print(f"[DynamoInterpreter] {node.op} {node.name} target={node.target}")
        op = node.op
        if op == "call_function":
            value = self.call_function(node)
        elif op == "placeholder":
            value = self.placeholder(node)
        elif op == "get_attr":
            value = self.get_attr(node)
        elif op == "output":
            value = self.output(node)
        elif op == "call_method":
            value = self.call_method(node)
        elif op == "call_module":
            value = self.call_module(node)
        else:
            raise ConversionError(
                f"node '{node.name}' has the kind '{op}', which torch.fx does not define"
            )
        self.values[node] = value
        return value

    # -- one method per kind of node

    def placeholder(self, node: Node) -> Any:
        """An input: a result, an initializer (when the retriever has a tensor), a dimension, or a
        number."""
        tensor = self.retriever(node) if self.retriever is not None else None
        if tensor is not None:
            target = str(node.target)
            wanted = self.initializer_names.get(target, target)
            made = self.make_initializer(wanted, tensor) if node.users else None
            name = None if made.__class__ is ComplexValue else made
            return self._record(node, "initializer" if node.users else "unused", name, None, made)
        value = None if control_flow.is_token(node) else results.node_value(node)
        if value is None or isinstance(value, (bool, int, float, str, enum.Enum)):
            return self._record(node, "none" if value is None else "constant", None, value, value)
        if isinstance(value, torch.SymInt):
            dim = dims.from_torch(value, self.rename)
            name = self.input_name(node)
            self.builder.make_tensor_input(name, dtypes.int64, (dim,), is_dimension=True)
            return self._record(node, "dimension", name, dim, dim)
        if not results.is_tensor_like(value):
            known = (
                "nothing is known about it"
                if value is results.UNKNOWN
                else f"it is a {type(value).__name__}"
            )
            raise ConversionError(
                f"input '{node.target}' of the graph cannot become an ONNX input: {known}. Give "
                "example inputs "
                "(`args`), or set node.meta['val'] to a fake tensor."
            )
        dtype, shape = self.guarded(node, results.tensor_type, value, self.rename)
        name = self.input_name(node)
        declared = complex_numbers.declare_input(self.builder, name, dtype, shape)
        return self._record(node, "tensor", name, None, self.noted(declared))

    def get_attr(self, node: Node) -> Any:
        """An attribute: graphs are returned as they are, tensors become initializers named after
        their path."""
        path = str(node.target)
        found = find_attribute(self.owner, path, results.UNKNOWN)
        if found is results.UNKNOWN:
            raise ConversionError(
                f"node '{node.name}' reads '{node.target}', which {type(self.owner).__name__} lacks"
            )
        if not isinstance(found, torch.Tensor):
            return found
        return self.make_initializer(self._prefix + path, found) if node.users else None

    def call_function(self, node: Node) -> Any:
        """An ATen overload (one look-up), a higher-order operator, or a Python function."""
        target = node.target
        if target.__class__ is torch._ops.OpOverload:
            if node in self._harmless:
                return self.call_in_place(node, self._harmless[node])
            if not node.users:
                return None  # nothing reads it, and overloads that write were refused
            converter = self._converters.get(target)
            if converter is None:
                return self.call_special(node)
            args, kwargs = convert_arguments(node, self.values, self.rename)
            if args and args[0].__class__ is not str:
                args[0] = numbers.as_tensor_argument(self.builder, target, args)
            return self.convert(node, converter, args, kwargs)
        if isinstance(target, torch._ops.HigherOrderOperator):
            return self.call_higher_order(node)
        return self.call_python(node)

    def call_in_place(self, node: Node, write: HarmlessWrite) -> Any:
        """A write that nobody else sees: the functional operator, whose result every name of the
        written tensor stands for from now on."""
        args, kwargs = convert_arguments(node, self.values, self.rename)
        converter = self.find_converter(write.overload)
        if converter is None:  # the user's dispatcher took it away
            raise self.not_found(node)
        value = self.convert(node, converter, args, kwargs)
        for alias in write.aliases:
            self.values[alias] = value
        return value

    def call_special(self, node: Node) -> Any:
        """An ATen overload seen for the first time, or one that needs no converter: sizes and
        run-time checks."""
        target: Any = node.target
        name = target.name()
        converter = self.find_converter(target)
        args, kwargs = convert_arguments(node, self.values, self.rename)
        if converter is not None:
            return self.convert(node, converter, args, kwargs)
        value = results.node_value(node)
        if symbolic.is_size_target(target) and isinstance(value, (int, torch.SymInt)):
            return dims.from_torch(value, self.rename)
        if name in METADATA_ONLY:
            return args[0]
        if name in ASSERTIONS:
            return None
        raise self.not_found(node)

    def call_higher_order(self, node: Node) -> Any:
        """Control flow through its converter; regions that call one graph once are converted in
        place."""
        args, kwargs = convert_arguments(node, self.values, self.rename)
        target: Any = node.target
        if target.name() in writing_calls.NAMES:
            call = self.guarded(
                node, writing_calls.functional_call, self.find_converter, args, kwargs
            )
            if call is not None:
                return self.convert(node, *call)
        converter = self.find_converter(target)
        if converter is not None and converter is not self.tables.hops.get(target.name()):
            return self.convert(node, converter, args, kwargs)  # the user's
        called = self.guarded(node, control_flow.transparent_call, node, args)
        if called is not None:
            return self.inline(*called)
        name = target.name()
        if name in control_flow.PASSED_ON:
            return control_flow.passed_on(name, args)
        if name == written.WRAPPER and written.is_wrapped(args):
            name, args = self.guarded(node, written.functional_call, args, kwargs)
            kwargs, converter = {}, self.tables.hops.get(name)
        if converter is None:
            raise self.not_found(node)
        return self.convert(node, converter, args, kwargs)

    def call_python(self, node: Node) -> Any:
        """Python operators: on integers from metadata, ``getitem`` on containers; the rest through
        the alias table."""
        target: Any = node.target
        value = results.node_value(node)
        args, kwargs = convert_arguments(node, self.values, self.rename)
        if outputs.is_number(value):
            return self.guarded(node, symbolic.number, self.builder, node, value, args, self.rename)
        name = calls.qualified_name(target)
        if name == "operator.getitem" and isinstance(args[0], (list, tuple, dict)):
            return args[0][args[1]]
        if name == "operator.getitem" and isinstance(args[0], str):
            return self.convert(node, getitem, args, kwargs)
        if name == "operator.getitem" and isinstance(args[0], ComplexValue):
            return self.convert(node, complex_numbers.complex_getitem, args, kwargs)
        if name in ASSERTIONS:
            return None
        if name == "builtins.getattr" and args[1] in calls.SIZE_PROPERTIES:
            return self.guarded(node, calls.known_size, self.builder, args[1], args)
        if name.startswith(calls.PYTHON) and not contains_result(args):
            return self.guarded(node, target, *args, **kwargs)
        return self.call_alias(node, calls.alias_of(self.tables, target), args, kwargs)

    def call_method(self, node: Node) -> Any:
        """A tensor method, through the table of methods."""
        name = str(node.target)
        args, kwargs = convert_arguments(node, self.values, self.rename)
        if name in calls.SIZE_METHODS and name not in self.tables.methods:
            return self.guarded(node, calls.known_size, self.builder, name, args)
        return self.call_alias(node, self.tables.methods.get(name), args, kwargs)

    def call_module(self, node: Node) -> Any:
        """A submodule: graphs are converted in place, leaf modules are traced into torch functions
        first."""
        module = find_attribute(self.owner, str(node.target), None)
        if is_guard(module) or not node.users:
            return None
        graph_module = self.leaf(module)
        if graph_module is None:
            raise self.not_found(node)
        args, kwargs = convert_arguments(node, self.values, self.rename)
        operands = self.guarded(node, module_operands, graph_module, args, kwargs)
        return self.inline(graph_module, operands, prefix=f"{self._prefix}{node.target}.")

    def output(self, node: Node) -> list[OutputRecord]:
        """The outputs of the graph, declared in the builder; see ``records.OutputRecord``."""
        leaves = list(outputs.flatten_output(node.args[0]))
        values = [convert_argument(leaf, self.values, self.rename) for leaf in leaves]
        if self.has_complex:
            values = complex_numbers.joined(self.builder, values)
        self.outputs = outputs.declare(
            self.builder, leaves, values, self.output_names, self.output_order, self.bypass_outputs
        )
        return self.outputs

    # -- calling converters

    def convert(
        self, node: Node, converter: Converter, args: list[Any], kwargs: dict[str, Any]
    ) -> Any:
        """Call ``converter`` for ``node`` and compare each result with what torch says of it."""
        value = results.node_value(node)
        try:
            if value is results.UNKNOWN:
                op = unsupported.missing_name(node)
                res = results.record_from_rule(
                    self.builder, node, self.tables.rules.get(op), args, kwargs
                )
            else:
                res = results.record_of(self.builder, node, value, self.rename)
            if self.has_complex or not dtypes.COMPLEX_TYPES.isdisjoint(res.dtypes):
                key = unsupported.missing_name(node)
                converter = self.complex_converter(key, converter, res, args, kwargs)
            returned = converter(self.builder, res, *args, **kwargs)
            if value.__class__ is torch.SymInt:
                return self.adopt_integer(value, returned)
            if value.__class__ in (torch.SymFloat, torch.SymBool) and isinstance(returned, str):
                return numbers.adopt(self.builder, returned, value)
            if value.__class__ in (list, tuple) and isinstance(returned, (list, tuple)):
                returned = [
                    self.adopt_integer(known, found) if known.__class__ is torch.SymInt else found
                    for known, found in itertools.zip_longest(value, returned)
                ]
        except Exception as error:
            raise self.failure(error, node) from error
        self.compare(node, res, returned)
        return returned

    def call_alias(self, node: Node, call: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
        """A torch function or method through its entry of the alias tables; torch chooses the
        overload."""
        if call is None:
            raise self.not_found(node)
        value = results.node_value(node)
        try:
            overload, args, kwargs = calls.resolve_overload(self.builder, call, args, kwargs)
            converter = self.find_converter(overload)
            if converter is None:
                raise UnsupportedCase(
                    f"torch takes {overload.name()} for this call, which has no converter"
                )
            if value is results.UNKNOWN:
                rule = self.tables.rules.get(overload.name())
                res = results.record_from_rule(self.builder, node, rule, args, kwargs)
            else:
                res = results.record_of(self.builder, node, value, self.rename)
            if self.has_complex or not dtypes.COMPLEX_TYPES.isdisjoint(res.dtypes):
                name = overload.name()
                converter = self.complex_converter(name, converter, res, args, kwargs)
            returned = converter(self.builder, res, *args, **kwargs)
        except Exception as error:
            raise self.failure(error, node) from error
        self.compare(node, res, returned)
        return returned

    def compare(self, node: Node, res: Res, returned: Any) -> None:
        """Raise ConversionError when a result has another type, rank or static dimension than
        torch's."""
        names = returned if isinstance(returned, (list, tuple)) else (returned,)
        if self.has_complex:
            names = self.guarded(node, complex_numbers.compared, self.builder, res, names)
        for name, dtype, shape in zip(names, res.dtypes, res.shapes, strict=False):
            if dtype is None or not name or name.__class__ is not str:
                continue
            difference = results.check_and_complete(self.builder, name, dtype, shape)
            if difference is not None:
                raise self.failure(BuilderError(difference), node) from None
