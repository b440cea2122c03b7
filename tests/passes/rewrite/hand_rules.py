"""Rules written by hand, as codegen would write them, and short ways to look at a graph: for
tests of the engine."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from ortable.builder import GraphBuilder
from ortable.debug.harness.runs import ModelRunner, make_checked_model
from ortable.ir.node import Node
from ortable.passes.rewrite.matcher import Matcher
from ortable.passes.rewrite.rule import Match, Rule

FLOATS = torch.tensor([-2.0, -0.5, 0.0, 3.0])


def ops(builder: GraphBuilder) -> list[str]:
    return [node.op_type for node in builder.nodes]


def text(builder: GraphBuilder) -> list[str]:
    """The nodes with all their names."""
    return [f"{node.name}: {node!r}" for node in builder.nodes]


def run(builder: GraphBuilder, *more: torch.Tensor) -> list[torch.Tensor]:
    """Outputs for FLOATS and what other inputs there are."""
    model = make_checked_model(builder)
    names = [value.name for value in model.graph.input]
    return ModelRunner(model)(dict(zip(names, (FLOATS, *more), strict=True)))


def rule(
    name: str,
    root: str,
    match: Callable[[Matcher, Node], Match | None],
    make: Callable[..., Any],
    *,
    stage: str = "simplify",
    child: str = "",
    size: int = 1,
    **more: Any,
) -> Rule:
    functions = {"match": match, "make": make}
    path = ((-1, child),) if child else ()
    return Rule(name, "tests", stage, root, (path,), size, functions, "match", "make", **more)


def one(m: Matcher, root: Node) -> Match | None:
    """The node alone, with all its inputs."""
    return Match((root,), tuple(root.outputs), tuple(root.inputs)) if m.plain(root) else None


def replaced(name: str, old: str, new: str, **more: Any) -> Rule:
    """An operator becomes another one of the same inputs."""

    def make(graph: Any, res: Any, *inputs: str) -> Any:
        return graph.make_node(new, list(inputs), res.outputs)

    return rule(name, old, one, make, **more)


def pair(outer: str, inner: str) -> Callable[[Matcher, Node], Match | None]:
    """Matcher of ``outer(inner(x))``."""

    def match(m: Matcher, root: Node) -> Match | None:
        below = m.producer(root.inputs[0], inner)
        if below is None:
            return None
        return Match((root, below), tuple(root.outputs), tuple(below.inputs))

    return match


def double(name: str, op: str, **more: Any) -> Rule:
    """``op(op(x))`` is x."""
    more = {"child": op, "size": 2, **more}
    return rule(name, op, pair(op, op), lambda graph, res, x: x, **more)


def chain(name: str, outer: str, inner: str, new: str, **more: Any) -> Rule:
    """``outer(inner(x))`` is ``new(x)``."""
    more = {"child": inner, "size": 2, **more}

    def make(graph: Any, res: Any, x: str) -> Any:
        return graph.make_node(new, [x], res.outputs)

    return rule(name, outer, pair(outer, inner), make, **more)
