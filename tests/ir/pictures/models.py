"""Small cached models for the tests of drawings, one for each kind of graph."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache

import torch
from onnx import GraphProto, ModelProto, TensorProto, helper

import ortable
from ortable.ir.pictures.scene import Box, Scene, boxes_of

TIMES = "\N{MULTIPLICATION SIGN}"


class Block(torch.nn.Module):
    """A residual block, named as in a transformer."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.norm = torch.nn.LayerNorm(size)
        self.fc = torch.nn.Linear(size, size)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + torch.tanh(self.fc(self.norm(x)))


class Stack(torch.nn.Module):
    """Twelve equal blocks."""

    def __init__(self, count: int = 12, size: int = 4) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList([Block(size) for _ in range(count)])
        self.head = torch.nn.Linear(size, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


class ReusedLayer(torch.nn.Module):
    """One module that is called twice, with another module in between."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = torch.nn.Linear(3, 3)
        self.norm = torch.nn.LayerNorm(3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.fc(self.norm(self.fc(x)))


class LoopAndBranch(torch.nn.Module):
    """A loop over a module, then a branch."""

    def __init__(self) -> None:
        super().__init__()
        self.cell = torch.nn.Linear(4, 4)

    def forward(self, x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
        def condition(i: torch.Tensor, h: torch.Tensor) -> torch.Tensor:
            return i < n

        def body(i: torch.Tensor, h: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return i + 1, torch.tanh(self.cell(h))

        _, h = torch._higher_order_ops.while_loop(condition, body, (torch.tensor(0), x))
        return torch.cond(h.sum() > 0, lambda h: h * 2, lambda h: h - 1, (h,))


@cache
def stack() -> ModelProto:
    torch.manual_seed(0)
    return ortable.to_onnx(
        Stack(), (torch.rand(2, 4),), dynamic_shapes=({0: torch.export.Dim("n")},)
    )


@cache
def function_model() -> ModelProto:
    torch.manual_seed(0)
    return ortable.to_onnx(Stack(4), (torch.rand(2, 4),), export_modules_as_functions=True)


@cache
def reused() -> ModelProto:
    torch.manual_seed(0)
    return ortable.to_onnx(ReusedLayer(), (torch.rand(2, 3),))


@cache
def loop_and_branch() -> ModelProto:
    torch.manual_seed(0)
    return ortable.to_onnx(LoopAndBranch(), (torch.rand(2, 4), torch.tensor(3)))


MODELS: tuple[Callable[[], ModelProto], ...] = (stack, function_model, reused, loop_and_branch)


def make_chain(count: int, name: Callable[[int], str] = lambda _: "") -> ModelProto:
    """Return a chain of nodes that repeats five operators; `name` maps a position to a name."""
    operators = ("Relu", "Neg", "Abs", "Exp", "Sin")
    nodes = [
        helper.make_node(operators[i % 5], [f"r{i}"], [f"r{i + 1}"], name=name(i))
        for i in range(count)
    ]
    values = [
        helper.make_tensor_value_info(end, TensorProto.FLOAT, [2]) for end in ("r0", f"r{count}")
    ]
    return helper.make_model(helper.make_graph(nodes, "chain", values[:1], values[1:]))


def count_nodes(model: ModelProto) -> int:
    """Return the number of boxes: a function's nodes count per call, constants do not."""
    functions_by_key = {(function.domain, function.name): function for function in model.functions}

    def count(nodes: object) -> int:
        total = 0
        for node in nodes:  # type: ignore[attr-defined]
            callee = functions_by_key.get((node.domain, node.op_type))
            if callee is not None:
                total += count(callee.node)
            elif node.op_type != "Constant":
                total += 1 + sum(count(graph.node) for graph in list_subgraphs(node))
        return total

    return count(model.graph.node)


def list_subgraphs(node: object) -> Iterator[GraphProto]:
    for attribute in node.attribute:  # type: ignore[attr-defined]
        if attribute.HasField("g"):
            yield attribute.g
        yield from attribute.graphs


def node_boxes(scene: Scene) -> list[Box]:
    return [box for box in boxes_of(scene.root) if box.role == "node"]
