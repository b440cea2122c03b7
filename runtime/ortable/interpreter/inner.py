"""Graphs that a node of the graph holds: converted in place, as a branch with outputs of its own,
or into a builder that the caller gives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from torch.fx import GraphModule, Node

from ortable.interpreter.mutation.in_place import harmless_writes

from . import control_flow
from .base import InterpreterState


class InnerGraphs(InterpreterState):
    """Base of DynamoInterpreter; what it needs of it is ``enter`` and ``run_node``."""

    def enter(self, graph_module: Any) -> None:
        """Make ``graph_module`` the graph that is converted."""
        raise NotImplementedError

    def run_node(self, node: Node) -> Any:
        """Convert one node."""
        raise NotImplementedError

    def plant(self, builder: Any) -> None:
        """Make this interpreter the one that lowerings of ``builder`` call back."""
        builder.ctx = replace(
            builder.ctx,
            convert_subgraph=self.convert_subgraph,
            convert_into=self.convert_into,
            find_converter=self.find_converter,
        )

    def inline(self, graph_module: GraphModule, operands: Sequence[Any], prefix: str = "") -> Any:
        """Convert ``graph_module`` in place, called with ``operands``; returns what its output node
        returns."""
        outer = self.graph_module, self.module, self._prefix
        self.graph_module, self.module, self._prefix = (
            graph_module,
            graph_module,
            prefix or self._prefix,
        )
        for node in graph_module.graph.nodes:
            self.values.pop(node, None)  # the same submodule may have been called before
        control_flow.bind(graph_module, operands, self.values)
        self._harmless.update(harmless_writes(graph_module, self.tables.converters.__contains__))
        for node in graph_module.graph.nodes:
            if node.op != "output":
                self.run_node(node)
        self.graph_module, self.module, self._prefix = outer
        return control_flow.result_of(graph_module, self.values)

    def convert_subgraph(
        self,
        graph_module: GraphModule,
        operands: Sequence[Any],
        *,
        name: str = "subgraph",
        child: Any = None,
    ) -> Any:
        """A branch or a body as a child builder whose outputs are those of ``graph_module``.

        ``operands`` are results of the outer graph (visible inside) or inputs that the caller
        declared on ``child``.
        """
        child = child if child is not None else self.builder.subgraph(name)
        inner = self._inner(child)
        inner.enter(graph_module)
        count = control_flow.count_outputs(graph_module)
        inner.output_names = [child.unique_name(f"{name}_output_{index}") for index in range(count)]
        control_flow.bind(graph_module, operands, inner.values)
        for node in graph_module.graph.nodes:
            inner.run_node(node)
        return child

    def convert_into(
        self,
        builder: Any,
        graph_module: GraphModule,
        operands: Sequence[Any],
        rename: Mapping[str, str] | None = None,
    ) -> list[Any]:
        """What ``graph_module`` returns for ``operands``, computed by nodes of ``builder``:
        results, numbers and dimensions; no output is declared.

        ``rename`` gives symbols of the inner graph names of their own in ``builder``.
        """
        inner = self._inner(builder)
        inner.rename = {**(self.rename or {}), **(rename or {})} or None
        outer = builder.ctx, builder.origin
        inner.enter(graph_module)
        found = inner.inline(graph_module, operands)
        builder.ctx, builder.origin = outer
        return found if isinstance(found, list) else [found]

    def _inner(self, builder: Any) -> InnerGraphs:
        """An interpreter with the same tables for a graph inside this one."""
        inner = type(self)(
            builder, dispatcher=self.dispatcher, tables=self.tables, verbose=self.verbose
        )
        inner.rename = self.rename
        inner._converters = self._converters
        inner.has_complex = self.has_complex
        return inner
