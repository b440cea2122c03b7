"""What an interpreter knows while it walks a graph: its options, what nodes became, and small
helpers. DynamoInterpreter adds to this one method per kind of node."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.fx import GraphModule, Node

from ortable.interpreter.mutation.in_place import HarmlessWrite, harmless_writes
from ortable.ir.result import Res
from ortable.prelude.complex_value import ComplexValue, split_pair

from .. import dims, dtypes
from ..errors import OrtableError
from . import calls, complex_numbers
from .diagnostics import failures, unsupported
from .modules import functional_form
from .records import InputRecord, OutputRecord
from .tables import Converter, Tables, generated_tables

Retriever = Callable[[Node], Any]


class InterpreterState:
    """Base of DynamoInterpreter, which documents the arguments."""

    def __init__(
        self,
        builder: Any,
        retriever: Retriever | None = None,
        dispatcher: Any = None,
        *,
        module: torch.nn.Module | None = None,
        tables: Tables | None = None,
        converters: Mapping[str, Converter] | None = None,
        input_names: Mapping[str, str] | None = None,
        initializer_names: Mapping[str, str] | None = None,
        output_names: Sequence[str] | None = None,
        output_order: Sequence[int] | None = None,
        bypass_outputs: bool = False,
        verbose: int = 0,
    ) -> None:
        self.builder = builder
        self.retriever = retriever
        self.dispatcher = dispatcher
        self.module = module
        self.tables = (tables or generated_tables()).extended(converters or {})
        self.input_names = dict(input_names or {})
        self.initializer_names = dict(initializer_names or {})
        self.output_names = list(output_names) if output_names is not None else None
        self.output_order = output_order
        self.bypass_outputs = bypass_outputs
        self.verbose = verbose
        self.values: dict[Node, Any] = {}
        self.inputs: list[InputRecord] = []
        self.outputs: list[OutputRecord] = []
        self.graph_module: GraphModule | None = None
        self.rename: Mapping[str, str] | None = builder.rename_dims or None
        self.has_complex = False  # whether a result so far is a ComplexValue
        self._prefix = ""
        self._converters: dict[Any, Converter | None] = {}
        self._leaves: dict[int, GraphModule | None] = {}
        self._harmless: dict[Node, HarmlessWrite] = {}

    def find_converter(self, target: Any) -> Converter | None:
        """The converter of an overload, remembered for the next node with the same target."""
        if target in self._converters:
            return self._converters[target]
        converter = calls.find_converter(self.tables, target.name(), target, self.dispatcher)
        self._converters[target] = converter
        return converter

    def complex_converter(
        self, key: str, converter: Converter, res: Res, args: list[Any], kwargs: dict[str, Any]
    ) -> Converter:
        """``converter``, or the one for complex tensors when an argument or a result is one."""
        found = complex_numbers.chosen(self.tables, key, converter, res, args, kwargs)
        self.has_complex = self.has_complex or found is not None
        return converter if found is None else found

    @property
    def owner(self) -> Any:
        """Where ``get_attr`` and ``call_module`` look."""
        return self.module if self.module is not None else self.graph_module

    def leaf(self, module: Any) -> GraphModule | None:
        """``module`` as a graph, remembered; None when it cannot be one without example inputs."""
        key = id(module)
        if key not in self._leaves:
            self._leaves[key] = (
                functional_form(module) if isinstance(module, torch.nn.Module) else None
            )
        return self._leaves[key]

    def input_name(self, node: Node) -> str:
        """Name of the ONNX input of a placeholder: the caller's choice, else the name of forward's
        parameter."""
        chosen = self.input_names.get(str(node.target))
        return chosen if chosen is not None else str(self.builder.unique_name(str(node.target)))

    def noted(self, value: Any) -> Any:
        """``value``; from the first pair on, arguments are looked at."""
        self.has_complex = self.has_complex or value.__class__ is ComplexValue
        return value

    def make_initializer(self, name: str, tensor: Any) -> Any:
        """An initializer that shares memory with ``tensor``; the builder makes tied weights one.
        A complex tensor is a real one, split."""
        given = complex_numbers.real_tensor(tensor)
        found = self.builder.make_initializer(self.builder.unique_name(name), given)
        return found if given is tensor else self.noted(split_pair(self.builder, found))

    def adopt_integer(self, value: Any, returned: Any) -> Any:
        """An integer computed by the graph (``item()``): its symbol is read from the result that
        holds it."""
        dim = dims.from_torch(value, self.rename)
        if isinstance(returned, str):
            if self.builder.get_type(returned) != dtypes.int64:
                returned = self.builder.make_node("Cast", [returned], to=dtypes.int64)
            self.builder.set_value_shape(
                returned, (dim,) if self.builder.get_rank(returned) else dim
            )
        return dim

    def guarded(self, node: Node, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Call ``function``; whatever it raises is raised again with what ``node`` is."""
        try:
            return function(*args, **kwargs)
        except Exception as error:
            raise self.failure(error, node) from error

    def failure(self, error: Exception, node: Node) -> OrtableError:
        """``error`` with node, operator, arguments, module and source line."""
        found = failures.wrapped(error, node, self.tables.spec_files, self.builder)
        found.fx_node = node.name  # of a graph inside the graph: the node that calls it, at last
        return found

    def not_found(self, node: Node) -> OrtableError:
        """The error for one node that the first look at the graph could not judge."""
        missing = unsupported.collect([node])
        return unsupported.not_found_error(missing, self.tables, self.builder.get_debug_msg())

    def _record(self, node: Node, role: Any, name: str | None, value: Any, returned: Any) -> Any:
        self.inputs.append(InputRecord(len(self.inputs), node.name, role, name, value))
        return returned

    def _enter(self, graph_module: GraphModule) -> None:
        self.graph_module = graph_module
        self._harmless.update(harmless_writes(graph_module, self.tables.converters.__contains__))
        self.rename = self.rename or self.builder.rename_dims or None
        self.builder.debug_sections.append(lambda: failures.graph_text(self))
