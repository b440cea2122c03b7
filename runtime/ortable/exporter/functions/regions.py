"""A part of a torch graph that becomes a local function: its nodes, what it reads from outside
and what others read of it, and a key that is equal for parts that convert to the same function.
Called by interpreter.py and custom_operators.py."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.fx import Node

from ortable.dims import SymDim
from ortable.exporter.request.module_calls import ModuleCall, Stack
from ortable.interpreter import results
from ortable.prelude.complex_value import ComplexValue


@dataclass
class FunctionRegion:
    """``externals``: nodes outside whose values are read, in order of first use; ``returned``:
    nodes whose values are read outside (or that name a tensor that is written inside)."""

    call: ModuleCall
    nodes: Sequence[Node]
    stacks: Sequence[Stack]
    externals: list[Node] = field(default_factory=list)
    returned: list[Node] = field(default_factory=list)

    @classmethod
    def cut(
        cls, call: ModuleCall, nodes: Sequence[Node], stacks: Sequence[Stack], writes: Any
    ) -> FunctionRegion:
        """The region of a run of nodes; ``writes`` are the harmless writes of the graph."""
        inside = set(nodes)
        externals: dict[Node, None] = {}
        returned: dict[Node, None] = {}
        for node in nodes:
            for source in node.all_input_nodes:
                if source not in inside:
                    externals.setdefault(source)
            if any(user not in inside for user in node.users):
                returned.setdefault(node)
            write = writes.get(node) if writes else None
            for alias in () if write is None else write.aliases:
                if any(user not in inside for user in alias.users):
                    returned.setdefault(alias)
        return cls(call, nodes, stacks, list(externals), list(returned))


class Signature:
    """Makes the key of a region.

    ``external``: the part of the key that says what an external node is, given the calls around
    its reader.
    """

    def __init__(self, region: FunctionRegion, external: Callable[[Node, Stack], Hashable]) -> None:
        self._numbers: dict[Node, int] = {}
        self._calls: dict[str, int] = {}
        self._external = external
        self._region = region
        self._outside = {node: place for place, node in enumerate(region.externals)}

    def key(self) -> Hashable:
        """The key: operators, arguments, types, the calls inside, what is returned."""
        region = self._region
        parts = [
            self._node(node, stack) for node, stack in zip(region.nodes, region.stacks, strict=True)
        ]
        returned = tuple(
            self._numbers.get(node, ("outside", self._outside.get(node)))
            for node in region.returned
        )
        return region.call.kind, tuple(parts), returned

    def _node(self, node: Node, stack: Stack) -> Hashable:
        args = tuple(self._argument(arg, stack) for arg in node.args)
        named = tuple((name, self._argument(arg, stack)) for name, arg in node.kwargs.items())
        self._numbers[node] = len(self._numbers)
        calls = tuple(
            (self._calls.setdefault(call.key, len(self._calls)), call.kind) for call in stack
        )
        value = results.node_value(node)
        used = (
            tuple(results.used_results(node, len(value)))
            if isinstance(value, (list, tuple))
            else bool(node.users)
        )
        return node.op, node.target, args, named, calls, used, fx_type(value)

    def _argument(self, value: Any, stack: Stack) -> Hashable:
        kind = value.__class__
        if kind is Node:
            number = self._numbers.get(value)
            if number is not None:
                return number
            return ("outside", self._outside.get(value), self._external(value, stack))
        if kind is int or kind is bool or value is None or kind is str:
            return kind, value
        if isinstance(value, (list, tuple)):
            return kind, tuple(self._argument(item, stack) for item in value)
        if isinstance(value, dict):
            return kind, tuple((k, self._argument(item, stack)) for k, item in value.items())
        if isinstance(value, slice):
            parts = (value.start, value.stop, value.step)
            return slice, tuple(self._argument(item, stack) for item in parts)
        if isinstance(value, torch.nn.Module):
            return "graph", id(value)
        return kind.__name__, repr(value)  # -0.0 is not 0.0, and nan is nan


def fx_type(value: Any) -> Hashable:
    """What FX knows of a value, in a form that can be compared."""
    if results.is_tensor_like(value):
        return value.dtype, tuple([d if d.__class__ is int else str(d) for d in value.shape])
    if isinstance(value, (list, tuple)):
        return tuple(fx_type(item) for item in value)
    return value.__class__.__name__, str(value)


def value_type(builder: Any, value: Any, order: dict[str, int]) -> Hashable:
    """What a converted value is: results by type and shape, and by ``order`` where the same one
    comes twice."""
    if isinstance(value, str):
        info = builder.values.get(value)
        if info is None:
            return str, value
        shape = None
        if info.shape is not None:
            shape = tuple([d if d.__class__ is int else str(d) for d in info.shape])
        place = order.setdefault(value, len(order))
        return "result", place, info.dtype, shape, info.rank, builder.numbers.get(value)
    if isinstance(value, SymDim):
        return "dimension", str(value)
    if isinstance(value, (list, tuple)):
        return type(value), tuple(value_type(builder, item, order) for item in value)
    if isinstance(value, dict):
        return dict, tuple((k, value_type(builder, v, order)) for k, v in value.items())
    if isinstance(value, ComplexValue):
        parts = (value_type(builder, part, order) for part in (value.real, value.imag))
        return ComplexValue, value.dtype, *parts
    if isinstance(value, torch.nn.Module):
        return "graph", id(value)
    return type(value).__name__, repr(value)
