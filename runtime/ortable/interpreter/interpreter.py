"""Convert a torch.fx graph in one pass, with one look-up and one converter call for each node.

Expected shapes and types come from FX metadata, or from the generated rules if there is none, and
are compared with those inferred from the ONNX nodes. Converters of control flow call the
interpreter through ``graph.ctx``.
"""

from __future__ import annotations

import enum
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch
from torch.fx import GraphModule, Node

from ortable.compat.torch import HigherOrderOperator, OpOverload
from ortable.ir import Graph
from ortable.ir.context import Converter
from ortable.ir.result import ResultSpec
from ortable.prelude.complex_value import ComplexValue, split_pair
from ortable_generated.aten import traits

from .. import dims, dtypes
from ..errors import BuilderError, ConversionError, OrtableError, UnsupportedCase
from ..lowerings.indexing import lower_getitem
from . import (
    calls,
    complex_numbers,
    control_flow,
    numbers,
    outputs,
    results,
)
from .diagnostics import failures, unsupported
from .diagnostics.origin import metadata_reader
from .modules import find_attribute, functional_form, is_guard, module_operands
from .mutation import ElidableMutation, elidable_mutations
from .outputs import InputRecord, OutputRecord
from .results import contains_result, convert_argument, convert_arguments
from .tables import ConverterTables, generated_tables

Retriever = Callable[[Node], Any]


class DynamoInterpreter:
    """Convert a ``torch.fx.GraphModule`` into nodes of a graph, usually a GraphBuilder.

    After ``run``, ``inputs`` and ``outputs`` contain a record with the role of each input and
    output, and ``values`` the converted value of each FX node: a result, number or dimension.

    In methods, ``node`` and ``nodes`` are FX nodes of a ``graph_module``, which read attributes of
    ``module``; ``args``, ``kwargs`` and ``operands`` are converted values. A ``converter`` adds the
    ONNX nodes of an operator (``of``, or the ``target`` of a node) to ``graph``; it returns results
    (``returned``), which ``res`` describes in advance. ``call`` is an entry of the alias tables,
    ``write`` an unobservable write in place. ``function`` is called with ``args`` as they are, and
    may raise ``error``. A child interpreter of class ``kind`` with ``options`` converts an inner
    graph. ``prefix`` starts the names of weights in an inlined module; ``name`` and ``tensor`` are
    a weight, ``value`` a converted value.

    Args:
        builder: the graph to which nodes are added. Its ``rename_dims`` maps torch's symbols to
            names of dimensions.
        retriever: a function of a placeholder, called as ``retriever(node)``. If it returns a
            tensor, the placeholder becomes an initializer; if None, an input or a constant.
        dispatcher: an object whose ``find(name, target, native)`` returns the converter of an
            overload, or None.
        module: the module that ``get_attr`` and ``call_module`` nodes refer to; defaults to the
            graph module.
        tables: converters and rules; defaults to the generated tables.
        converters: converters ``f(graph, res, *args, **kwargs)`` by overload name, which take
            precedence over ``tables``.
        input_names: names of ONNX inputs by placeholder target.
        initializer_names: names of initializers by placeholder target; default to the target.
        output_names: names of the leaves of the flattened output, in FX order; default to
            ``output_0``, ``output_1``, ...
        output_order: indices of leaves of the flattened output, in the order in which the ONNX
            outputs are declared.
        bypass_outputs: make no ONNX outputs for numbers, dimensions, None, inputs, initializers and
            duplicates. The caller returns them as described by the records.
        verbose: 2 prints each node.

    Raises:
        FunctionNotFoundError: the graph has operators without a converter; the error lists all of
            them before any node is converted.
        UnsupportedCase: a converter rejects its arguments, or ONNX cannot represent a tensor.
        ConversionError: a converter fails, or its results have another type or shape than torch's,
            or the graph has an observable write in place.
    """

    def __init__(
        self,
        builder: Graph,
        retriever: Retriever | None = None,
        dispatcher: calls.Dispatcher | None = None,
        *,
        module: torch.nn.Module | None = None,
        tables: ConverterTables | None = None,
        converters: Mapping[str, Converter] | None = None,
        input_names: Mapping[str, str] | None = None,
        initializer_names: Mapping[str, str] | None = None,
        output_names: Sequence[str] | None = None,
        output_order: Sequence[int] | None = None,
        bypass_outputs: bool = False,
        verbose: int = 0,
    ) -> None:
        self.graph = builder
        self.retriever = retriever
        self.dispatcher = dispatcher
        self.module = module
        self.tables = (tables or generated_tables()).with_converters(converters or {})
        self.input_names = dict(input_names or {})
        self.initializer_names = dict(initializer_names or {})
        self.output_names = list(output_names) if output_names is not None else None
        self.output_order = output_order
        self.bypass_outputs = bypass_outputs
        self.verbose = verbose
        self.values: dict[Node, Any] = {}
        self.cases: dict[Node, str] = {}  # the chosen case of each node whose entry has cases
        self.inputs: list[InputRecord] = []
        self.outputs: list[OutputRecord] = []
        self.graph_module: GraphModule | None = None
        self.rename: dims.Names | None = builder.rename_dims or None
        self.has_complex = False  # whether any result so far is a ComplexValue
        self._prefix = ""
        self._converters: dict[Any, Converter | None] = {}
        self._leaves: dict[int, GraphModule | None] = {}
        self.elidable: dict[Node, ElidableMutation] = {}  # of all graphs entered so far
        self._elidable_in: dict[GraphModule, dict[Node, ElidableMutation]] = {}

    @property
    def builder(self) -> Graph:
        """The graph to which nodes are added; an alias of ``graph``."""
        return self.graph

    # -- the whole graph

    def run(self, graph_module: GraphModule, *, outputs: bool = True) -> list[OutputRecord]:
        """Convert all nodes of a graph module.

        Args:
            graph_module: the graph module.
            outputs: whether to convert the output node, and so to declare the ONNX outputs.

        Returns:
            The records of the outputs.
        """
        self.enter(graph_module)
        self.check(graph_module)
        self.graph.origin_metadata = metadata_reader()
        for name in [*self.input_names.values(), *(self.output_names or ())]:
            if name:
                self.graph.unique_name(name)  # reserves the name, so that no other result gets it
        self.convert_graph(
            [node for node in graph_module.graph.nodes if outputs or node.op != "output"]
        )
        self.graph.origin = None
        return self.outputs

    def convert_graph(self, nodes: Sequence[Node]) -> None:
        """Convert nodes in order; subclasses override this."""
        for node in nodes:
            self.run_node(node)

    def enter(self, graph_module: GraphModule) -> None:
        """Start the conversion of ``graph_module`` and register this interpreter for callbacks."""
        self.graph_module = graph_module
        self.elidable.update(self.elidable_in(graph_module))
        self.rename = self.rename or self.graph.rename_dims or None
        self.graph.debug_sections.append(self._graph_text)
        self.answer(self.graph)

    def _graph_text(self) -> str:
        return failures.graph_text(self.graph_module, self.graph.origin, self.values)

    def answer(self, graph: Graph) -> None:
        """Register this interpreter for callbacks of lowerings that edit ``graph``."""
        graph.ctx = replace(
            graph.ctx,
            convert_subgraph=self.convert_subgraph,
            convert_into=self.convert_into,
            find_converter=self.find_converter,
            values=self.values,
        )

    def check(self, graph_module: GraphModule) -> None:
        """Raise if the graph has unsupported in-place writes or operators without a converter."""
        unsupported.check_writes(graph_module, self.tables, self.owner, self.elidable_in)
        missing = unsupported.group_missing(
            unsupported.missing_nodes(
                graph_module,
                self.tables,
                self.find_converter,
                self.leaf,
                self.owner,
                self.elidable_in,
            )
        )
        if missing:
            self.graph.origin = missing[0].nodes[0]
            raise unsupported.not_found_error(missing, self.tables, self.graph.get_debug_msg())

    def run_node(self, node: Node) -> Any:
        """Convert a node, store its converted value in ``values``, and return the value."""
        if node in self.values:
            return self.values[node]  # a placeholder of a subgraph, bound to an operand
        self.graph.origin = node
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
                f"node '{node.name}' has the op '{op}', which torch.fx does not define"
            )
        self.values[node] = value
        return value

    # -- one method for each FX op

    def placeholder(self, node: Node) -> Any:
        """Convert a placeholder to an input, an initializer, a dimension, or a constant."""
        tensor = self.retriever(node) if self.retriever is not None else None
        if tensor is not None:
            target = str(node.target)
            weight_name = self.initializer_names.get(target, target)
            weight = self._make_weight(node, weight_name, tensor) if node.users else None
            name = None if weight.__class__ is ComplexValue else weight
            return self._add_record(
                node, "initializer" if node.users else "unused", name, None, weight
            )
        value = None if control_flow.is_token(node) else results.node_value(node)
        if value is None or isinstance(value, (bool, int, float, str, enum.Enum)):
            return self._add_record(
                node, "none" if value is None else "constant", None, value, value
            )
        if isinstance(value, torch.SymInt):
            dim = dims.from_torch(value, self.rename)
            name = self.input_name(node)
            self.graph.make_tensor_input(name, dtypes.int64, (dim,), is_dimension=True)
            return self._add_record(node, "dimension", name, dim, dim)
        if not results.is_tensor_like(value):
            reason = (
                "its type and shape are unknown"
                if value is results.UNKNOWN
                else f"it is a {type(value).__name__}"
            )
            raise ConversionError(
                f"input '{node.target}' of the graph cannot become an ONNX input: {reason}. Give "
                "example inputs "
                "(`args`), or set node.meta['val'] to a fake tensor."
            )
        self.call_guarded(node, results.check_dense, value)
        dtype, shape = self.call_guarded(node, results.tensor_type, value, self.rename)
        name = self.input_name(node)
        declared = complex_numbers.declare_input(self.graph, name, dtype, shape)
        return self._add_record(node, "tensor", name, None, self.note_complex(declared))

    def get_attr(self, node: Node) -> Any:
        """Convert a tensor attribute to an initializer if it is used; return others unchanged."""
        path = str(node.target)
        value = find_attribute(self.owner, path, results.UNKNOWN)
        if value is results.UNKNOWN:
            raise ConversionError(
                f"node '{node.name}' reads '{node.target}', which {type(self.owner).__name__} lacks"
            )
        if not isinstance(value, torch.Tensor):
            return value
        return self._make_weight(node, self._prefix + path, value) if node.users else None

    def call_function(self, node: Node) -> Any:
        """Convert a call of an ATen overload, a higher-order operator, or a Python function."""
        target = node.target
        if target.__class__ is OpOverload:
            if node in self.elidable:
                return self.call_in_place(node, self.elidable[node])
            if not node.users:
                return None  # the result is unused, and overloads that write were rejected
            converter = self._converters.get(target)
            if converter is None:
                return self.call_special(node)
            args, kwargs = convert_arguments(node, self.values, self.rename)
            if args and args[0].__class__ is not str:
                args[0] = numbers.as_tensor_argument(self.graph, target, args)
            return self.convert(node, converter, args, kwargs)
        if isinstance(target, HigherOrderOperator):
            return self.call_higher_order(node)
        return self.call_python(node)

    def call_in_place(self, node: Node, write: ElidableMutation) -> Any:
        """Convert an unobservable write as a functional call; its result replaces all aliases."""
        args, kwargs = convert_arguments(node, self.values, self.rename)
        converter = self.find_converter(write.overload)
        if converter is None:  # the user's dispatcher removed it
            raise self.not_found(node)
        value = self.convert(node, converter, args, kwargs, write.overload.name())
        for alias in write.aliases:
            self.values[alias] = value
        return value

    def call_special(self, node: Node) -> Any:
        """Convert a call whose converter is not cached yet, or that needs none (sizes, checks)."""
        target: Any = node.target
        name = target.name()
        converter = self.find_converter(target)
        args, kwargs = convert_arguments(node, self.values, self.rename)
        if converter is not None:
            return self.convert(node, converter, args, kwargs)
        value = results.node_value(node)
        if numbers.is_size_target(target) and isinstance(value, (int, torch.SymInt)):
            return dims.from_torch(value, self.rename)
        if name in traits.METADATA_ONLY:
            return args[0]
        if name in traits.ASSERTION:
            return None
        raise self.not_found(node)

    def call_higher_order(self, node: Node) -> Any:
        """Convert a higher-order operator by its converter, or inline the graph that it calls."""
        args, kwargs = convert_arguments(node, self.values, self.rename)
        target: Any = node.target
        if target.name() in traits.FUNCTIONALIZED_CALL:
            call = self.call_guarded(
                node, control_flow.convert_functionalized_call, self.find_converter, args, kwargs
            )
            if call is not None:
                return self.convert(node, *call)
        converter = self.find_converter(target)
        if converter is not None and converter is not self.tables.hops.get(target.name()):
            return self.convert(node, converter, args, kwargs)  # a converter of the user
        transparent = self.call_guarded(node, control_flow.transparent_call, node, args)
        if transparent is not None:
            return self.inline(*transparent)
        name = target.name()
        if name in traits.RETURNS:
            return control_flow.transparent_result(name, args)
        if name == control_flow.FUNCTIONALIZED_WRAPPER and control_flow.wraps_control_flow(args):
            name, args = self.call_guarded(node, control_flow.control_flow_call, args, kwargs)
            kwargs, converter = {}, self.tables.hops.get(name)
        if converter is None:
            raise self.not_found(node)
        return self.convert(node, converter, args, kwargs)

    def call_python(self, node: Node) -> Any:
        """Convert a call of a Python function, by evaluation or through the alias table."""
        target: Any = node.target
        value = results.node_value(node)
        args, kwargs = convert_arguments(node, self.values, self.rename)
        if outputs.is_number(value):
            return self.call_guarded(
                node, numbers.convert_number, self.graph, node, value, args, self.rename
            )
        name = calls.qualified_name(target)
        if name == "operator.getitem" and isinstance(args[0], (list, tuple, dict)):
            return args[0][args[1]]
        if name == "operator.getitem" and isinstance(args[0], str):
            return self.convert(node, lower_getitem, args, kwargs)
        if name == "operator.getitem" and isinstance(args[0], ComplexValue):
            return self.convert(node, complex_numbers.complex_getitem, args, kwargs)
        if name in traits.ASSERTION:
            return None
        if name == "builtins.getattr" and args[1] in calls.SIZE_PROPERTIES:
            return self.call_guarded(node, calls.known_size, self.graph, args[1], args)
        if name.startswith(calls.PYTHON_PREFIXES) and not contains_result(args):
            return self.call_guarded(node, target, *args, **kwargs)
        returned = self.call_alias(node, calls.find_call_target(self.tables, target), args, kwargs)
        if target in calls.AUGMENTED_ASSIGNMENTS:
            self.call_guarded(node, calls.check_dtype_unchanged, self.graph, args[0], returned)
        return returned

    def call_method(self, node: Node) -> Any:
        """Convert a call of a tensor method through the table of methods."""
        name = str(node.target)
        args, kwargs = convert_arguments(node, self.values, self.rename)
        if name in calls.SIZE_METHODS and name not in self.tables.methods:
            return self.call_guarded(node, calls.known_size, self.graph, name, args)
        return self.call_alias(node, self.tables.methods.get(name), args, kwargs)

    def call_module(self, node: Node) -> Any:
        """Convert a call of a submodule by inlining its graph, which is traced if necessary."""
        module = find_attribute(self.owner, str(node.target), None)
        if is_guard(module) or not node.users:
            return None
        graph_module = self.leaf(module)
        if graph_module is None:
            raise self.not_found(node)
        args, kwargs = convert_arguments(node, self.values, self.rename)
        operands = self.call_guarded(node, module_operands, graph_module, args, kwargs)
        return self.inline(graph_module, operands, prefix=f"{self._prefix}{node.target}.")

    def output(self, node: Node) -> list[OutputRecord]:
        """Declare the outputs of the graph and return their records."""
        leaves = list(outputs.flatten_output(node.args[0]))
        values = [convert_argument(leaf, self.values, self.rename) for leaf in leaves]
        if self.has_complex:
            values = complex_numbers.join_outputs(self.graph, values)
        self.outputs = outputs.declare_outputs(
            self.graph, leaves, values, self.output_names, self.output_order, self.bypass_outputs
        )
        return self.outputs

    # -- calling converters

    def convert(
        self,
        node: Node,
        converter: Converter,
        args: list[Any],
        kwargs: dict[str, Any],
        of: str | None = None,
    ) -> Any:
        """Call a converter for a node, compare the results with FX metadata, and return them.

        ``of`` is the key of the operator that ``converter`` converts, if it is not the node's
        target: ``aten::add.Tensor`` for a node that calls ``operator.add``.
        """
        self.graph.case = 0
        value = results.node_value(node)
        key = of or calls.operator_key(node)
        try:
            if value is results.UNKNOWN:
                rule = self.tables.rules.get(key)
                res = results.make_spec_from_rule(self.graph, node, rule, args, kwargs)
            else:
                res = results.make_result_spec(self.graph, node, value, self.rename)
                if results.has_only_empty_results(
                    res
                ) and converter is self.tables.native_converter(key):
                    self.has_complex |= not dtypes.COMPLEX_TYPES.isdisjoint(res.dtypes)
                    return results.make_empty(self.graph, res, isinstance(value, (list, tuple)))
            if self.has_complex or not dtypes.COMPLEX_TYPES.isdisjoint(res.dtypes):
                complex_converter = complex_numbers.select_converter(
                    self.tables, key, converter, res, args, kwargs
                )
                self.has_complex = self.has_complex or complex_converter is not None
                converter = complex_converter or converter
            node_count = len(self.graph.nodes)
            returned = converter(self.graph, res, *args, **kwargs)
            if self.graph.case:
                self.cases[node] = f"{key}/{self.graph.case}"
            returned = results.rename_to_torch_names(self.graph, node, res, returned, node_count)
            if key in traits.CAST and isinstance(returned, str):
                self.graph.ctx.casts.add(returned)
            if value.__class__ is torch.SymInt:
                return results.bind_symint(self.graph, value, self.rename, returned)
            if value.__class__ in (torch.SymFloat, torch.SymBool) and isinstance(returned, str):
                return numbers.adopt_number(self.graph, returned, value)
            if value.__class__ in (list, tuple) and isinstance(returned, (list, tuple)):
                returned = [
                    results.bind_symint(self.graph, expected, self.rename, item)
                    if expected.__class__ is torch.SymInt
                    else item
                    for expected, item in itertools.zip_longest(value, returned)
                ]
        except Exception as error:
            raise self.failure(error, node) from error
        self.compare(node, res, returned)
        return returned

    def call_alias(self, node: Node, call: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
        """Convert a call of a torch function or method with the overload that torch resolves.

        ``call`` is the entry of the alias tables, or None if they have none.
        """
        if call is None:
            raise self.not_found(node)
        overload, args, kwargs = self.call_guarded(
            node, calls.resolve_overload, self.graph, node, call, args, kwargs
        )
        converter = self.find_converter(overload)
        if converter is None:
            text = f"torch resolves this call to {overload.name()}, which has no converter"
            raise self.failure(UnsupportedCase(text), node)
        return self.convert(node, converter, args, kwargs, overload.name())

    def compare(self, node: Node, res: ResultSpec, returned: Any) -> None:
        """Raise an error if results contradict ``res``; set types and shapes that they lack."""
        names = returned if isinstance(returned, (list, tuple)) else (returned,)
        if self.has_complex or any(name.__class__ is ComplexValue for name in names):
            names = self.call_guarded(node, complex_numbers.compare_parts, self.graph, res, names)
        for name, dtype, shape in zip(names, res.dtypes, res.shapes, strict=False):
            if dtype is None or not name or name.__class__ is not str:
                continue
            difference = results.check_and_complete(self.graph, name, dtype, shape)
            if difference is not None:
                raise self.failure(BuilderError(difference), node) from None

    def find_converter(self, target: Any) -> Converter | None:
        """Return the converter of an overload or higher-order operator, from a cache by target."""
        if target in self._converters:
            return self._converters[target]
        converter = calls.find_converter(self.tables, target.name(), target, self.dispatcher)
        self._converters[target] = converter
        return converter

    # -- subgraphs

    def child(
        self, graph: Graph, kind: type[DynamoInterpreter] | None = None, **options: Any
    ) -> DynamoInterpreter:
        """Return an interpreter that adds nodes to ``graph`` and shares tables and caches."""
        inner = (kind or type(self))(
            graph,
            dispatcher=self.dispatcher,
            tables=self.tables,
            verbose=self.verbose,
            **options,
        )
        inner.rename = self.rename
        inner.has_complex = self.has_complex
        inner._converters = self._converters
        inner._elidable_in = self._elidable_in
        return inner

    @contextmanager
    def inside(
        self, graph_module: GraphModule, module: torch.nn.Module | None, prefix: str = ""
    ) -> Iterator[None]:
        """Set the current graph module, owner of attributes and name prefix for a block.

        They are not restored after an error, because its message shows the current graph.
        """
        outer_state = self.graph_module, self.module, self._prefix
        self.graph_module, self.module = graph_module, module
        self._prefix = prefix or self._prefix
        self.elidable.update(self.elidable_in(graph_module))
        yield
        self.graph_module, self.module, self._prefix = outer_state

    def inline(self, graph_module: GraphModule, operands: Sequence[Any], prefix: str = "") -> Any:
        """Convert a call of ``graph_module`` into the current graph and return its output value."""
        with self.inside(graph_module, graph_module, prefix):
            for node in graph_module.graph.nodes:
                self.values.pop(node, None)  # the same submodule may have been called before
            control_flow.bind_placeholders(graph_module, operands, self.values)
            for node in graph_module.graph.nodes:
                if node.op != "output":
                    self.run_node(node)
        return control_flow.inlined_result(graph_module, self.values)

    def convert_subgraph(
        self,
        graph_module: GraphModule,
        operands: Sequence[Any],
        *,
        name: str = "subgraph",
        child: Graph | None = None,
    ) -> Graph:
        """Convert a branch or loop body to a child graph with the outputs of ``graph_module``.

        Args:
            graph_module: the branch or body.
            operands: values of its placeholders: results of the outer graph, numbers, dimensions,
                or inputs that the caller declared in ``child``.
            name: name of a new child graph, and prefix of the names of its outputs.
            child: an existing child graph; None makes one.

        Returns:
            The child graph.
        """
        child = child if child is not None else self.graph.subgraph(name)
        inner = self.child(child)
        inner.enter(graph_module)
        count = control_flow.count_outputs(graph_module)
        inner.output_names = [child.unique_name(f"{name}_output_{index}") for index in range(count)]
        control_flow.bind_placeholders(graph_module, operands, inner.values)
        for node in graph_module.graph.nodes:
            inner.run_node(node)
        return child

    def convert_into(
        self,
        graph: Graph,
        graph_module: GraphModule,
        operands: Sequence[Any],
        rename: dims.Names | None = None,
    ) -> list[Any]:
        """Convert a call of ``graph_module`` into nodes of ``graph``, without declaring outputs.

        Args:
            graph: the graph to which nodes are added.
            graph_module: the called graph.
            operands: values of its placeholders.
            rename: maps symbols of the graph module to names in ``graph``.

        Returns:
            The returned values: results, numbers and dimensions.
        """
        inner = self.child(graph)
        inner.rename = {**(self.rename or {}), **(rename or {})} or None
        outer_state = graph.ctx, graph.origin
        inner.enter(graph_module)
        converted = inner.inline(graph_module, operands)
        graph.ctx, graph.origin = outer_state
        return converted if isinstance(converted, list) else [converted]

    def elidable_in(self, graph_module: GraphModule) -> dict[Node, ElidableMutation]:
        """Return the unobservable in-place writes of a graph, from a cache by graph module."""
        elidable = self._elidable_in.get(graph_module)
        if elidable is None:
            elidable = elidable_mutations(graph_module, self.tables.converters.__contains__)
            self._elidable_in[graph_module] = elidable
        return elidable

    @property
    def owner(self) -> Any:
        """The module that ``get_attr`` and ``call_module`` nodes refer to."""
        return self.module if self.module is not None else self.graph_module

    def leaf(self, module: Any) -> GraphModule | None:
        """Return a submodule as a graph (cached), or None if it cannot be traced."""
        key = id(module)
        if key not in self._leaves:
            self._leaves[key] = (
                functional_form(module) if isinstance(module, torch.nn.Module) else None
            )
        return self._leaves[key]

    # -- inputs and initializers

    def input_name(self, node: Node) -> str:
        """Return the name of a placeholder's ONNX input; the default is unique, from the target."""
        name = self.input_names.get(str(node.target))
        return name if name is not None else str(self.graph.unique_name(str(node.target)))

    def note_complex(self, value: Any) -> Any:
        """Set ``has_complex`` if ``value`` is a ComplexValue, and return ``value``."""
        self.has_complex = self.has_complex or value.__class__ is ComplexValue
        return value

    def _make_weight(self, node: Node, name: str, tensor: Any) -> Any:
        """Make the initializer of a weight; raise UnsupportedCase if ONNX cannot represent it."""
        self.call_guarded(node, results.check_weight, tensor)
        return self.make_initializer(name, tensor)

    def make_initializer(self, name: str, tensor: Any) -> Any:
        """Make an initializer that references ``tensor``; return its name, or a ComplexValue.

        Tied weights become one initializer. A complex tensor becomes a real initializer, whose
        parts are the returned ComplexValue.
        """
        real = complex_numbers.real_tensor(tensor)
        initializer = self.graph.make_initializer(self.graph.unique_name(name), real)
        return (
            initializer
            if real is tensor
            else self.note_complex(split_pair(self.graph, initializer))
        )

    def _add_record(
        self, node: Node, role: Any, name: str | None, value: Any, returned: Any
    ) -> Any:
        self.inputs.append(InputRecord(len(self.inputs), node.name, role, name, value))
        return returned

    # -- errors

    def call_guarded(
        self, node: Node, function: Callable[..., Any], *args: Any, **kwargs: Any
    ) -> Any:
        """Call ``function``; describe ``node`` in any error that it raises."""
        try:
            return function(*args, **kwargs)
        except Exception as error:
            raise self.failure(error, node) from error

    def failure(self, error: Exception, node: Node) -> OrtableError:
        """Return the error to raise for ``error``, with node, operator, module and source line."""
        failure = failures.wrap_error(error, node, self.tables.spec_files, self.graph)
        failure.fx_node = node.name  # the interpreter of an outer graph sets the calling node
        if node.op.startswith("call_"):
            failure.operator = getattr(error, "operator", "")
            failure.converter_name = getattr(error, "converter_name", "")
            if not failure.operator:
                failure.operator = calls.operator_key(node)
                failure.converter_name = calls.converter_name(self.tables, node)
        return failure

    def not_found(self, node: Node) -> OrtableError:
        """Return the error for a node whose missing converter `check` could not detect."""
        missing = unsupported.group_missing([node])
        return unsupported.not_found_error(missing, self.tables, self.graph.get_debug_msg())
