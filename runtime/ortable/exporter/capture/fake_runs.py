"""Run a module, or the graph of a program, with fake tensors at given sizes: what it does there
shows without data and without the time that numbers take. small_sizes.py calls it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.fx import Interpreter, Node

from ortable.compat.torch import FakeTensorMode, ShapeEnv, exporting_state, pytree
from ortable.exporter.account.resize import resized
from ortable.exporter.request.ambient import forward_under_autocast, in_onnx_export
from ortable.exporter.request.caller_state import held_tensors, state_restored, tensors_replaced
from ortable.exporter.request.program import Program, Request
from ortable.interpreter import results
from ortable.ir.initializers import is_fake

from .advice import headline
from .quiet import FAKES, quiet
from .recorded_calls import AtSizes, CallRecord, recorded


class FakeCopies:
    """Fake tensors of one mode for tensors, each made once so that tied weights stay tied."""

    def __init__(self) -> None:
        self.mode = FakeTensorMode(allow_non_fake_inputs=True, shape_env=ShapeEnv())
        self._copies: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}

    def __call__(self, value: Any) -> Any:
        """The copy of a tensor; other values are returned themselves."""
        if not isinstance(value, torch.Tensor):
            return value
        if id(value) not in self._copies:
            self._copies[id(value)] = value, self._copy(value)
        return self._copies[id(value)][1]

    def _copy(self, value: torch.Tensor) -> torch.Tensor:
        if not is_fake(value):
            return self.mode.from_tensor(value, static_shapes=True)
        with self.mode:  # of another mode
            return torch.empty_strided(
                value.shape, value.stride(), dtype=value.dtype, device=value.device
            )

    def call(
        self, leaves: Sequence[Any], sizes: Sequence[Any], values: Mapping[Any, int]
    ) -> list[Any]:
        """The leaves of a call at other sizes: ``sizes`` are those of each leaf in the program."""
        with self.mode:
            return [
                resized(self(leaf), dims, values) for leaf, dims in zip(leaves, sizes, strict=True)
            ]


def record_module(
    request: Request, copies: FakeCopies, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> CallRecord:
    """The calls of the module for arguments that ``copies`` made.

    Raises whatever the forward does, and what fake tensors lack.
    """
    module, record = request.model, CallRecord()
    with (
        state_restored(module, (request.args, request.kwargs)),
        tensors_replaced(held_tensors(module), copies),
        forward_under_autocast(module),
        recorded(module, record),
        in_onnx_export(),
        exporting_state(),
        quiet(FAKES),
        copies.mode,
    ):
        module(*args, **kwargs)
    return record


class PartingNode(Exception):
    """A node of a program has another result than its symbolic sizes say."""

    def __init__(self, node: Node, words: str) -> None:
        super().__init__(words)
        self.node, self.words = node, words  # torch.fx adds to the message


class FailingNode(PartingNode):
    """A node of a program raises."""


class _Checking(Interpreter):
    """Compares the result of each node with what the program says of it."""

    def __init__(self, program: Program, at_sizes: AtSizes) -> None:
        super().__init__(program.graph_module)
        self.at_sizes = at_sizes

    def run_node(self, node: Node) -> Any:
        """The result of a node."""
        try:
            result = super().run_node(node)
        except Exception as error:  # kernels raise many types
            raise FailingNode(node, f"{node.target} raises {headline(error)}") from error
        if node.op != "output":
            found, said = pytree.tree_leaves(result), pytree.tree_leaves(results.node_value(node))
            for one, other in zip(found, said, strict=False):
                if isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor):
                    self._check(node, tuple(one.shape), tuple(other.shape))
        return result

    def _check(self, node: Node, found: Sequence[Any], said: Sequence[Any]) -> None:
        expected = [self.at_sizes(size) for size in said]
        if len(found) != len(said) or any(
            size is not None and isinstance(one, int) and one != size
            for one, size in zip(found, expected, strict=True)
        ):
            raise PartingNode(node, f"a result of {node.target} has shape {list(found)}")


def check_graph(
    program: Program,
    leaves: Sequence[Any],
    at_sizes: AtSizes,
    weight: Callable[[Any], Any],
) -> None:
    """Run the graph of a program on these inputs; ``weight`` makes what it reads of a weight.

    Raises PartingNode where a result has another shape than the program says, FailingNode where a
    node raises.
    """
    users = iter(leaves)
    given = [
        weight(program.weights[node.name]) if node.name in program.weights else next(users)
        for node in program.graph_module.graph.find_nodes(op="placeholder")
    ]
    with torch.no_grad():
        _Checking(program, at_sizes).run(*given)
