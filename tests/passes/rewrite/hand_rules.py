"""Handwritten equivalents of generated rules, and short helpers to inspect a graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from ortable.builder import GraphBuilder
from ortable.ir.node import Node
from ortable.passes.rewrite.matcher import Matcher
from ortable.passes.rewrite.rule import Match, Rule
from ortable.testing.runs import ModelRunner, make_checked_model

FLOATS = torch.tensor([-2.0, -0.5, 0.0, 3.0])


def ops(builder: GraphBuilder) -> list[str]:
    return [node.op_type for node in builder.nodes]


def texts(builder: GraphBuilder) -> list[str]:
    return [f"{node.name}: {node!r}" for node in builder.nodes]


def run(builder: GraphBuilder, *other_inputs: torch.Tensor) -> list[torch.Tensor]:
    """Return the outputs for FLOATS and the values of the other inputs."""
    model = make_checked_model(builder)
    names = [value.name for value in model.graph.input]
    return ModelRunner(model)(dict(zip(names, (FLOATS, *other_inputs), strict=True)))


def rule(
    name: str,
    root: str,
    match: Callable[[Matcher, Node], Match | None],
    make: Callable[..., Any],
    *,
    stage: str = "simplify",
    child: str = "",
    size: int = 1,
    **options: Any,
) -> Rule:
    functions = {"match": match, "make": make}
    path = ((-1, child),) if child else ()
    return Rule(name, "tests", stage, root, (path,), size, functions, "match", "make", **options)


def match_one(m: Matcher, root: Node) -> Match | None:
    """Match a single node and capture all its inputs."""
    return Match((root,), tuple(root.outputs), tuple(root.inputs)) if m.plain(root) else None


def replacement(name: str, old: str, new: str, **options: Any) -> Rule:
    """Return a rule that replaces an operator by another with the same inputs."""

    def make(graph: Any, res: Any, *inputs: str) -> Any:
        return graph.make_node(new, list(inputs), res.outputs)

    return rule(name, old, match_one, make, **options)


def match_pair(outer: str, inner: str) -> Callable[[Matcher, Node], Match | None]:
    """Return a matcher of `outer(inner(x))`."""

    def match(m: Matcher, root: Node) -> Match | None:
        inner_node = m.producer(root.inputs[0], inner)
        if inner_node is None:
            return None
        return Match((root, inner_node), tuple(root.outputs), tuple(inner_node.inputs))

    return match


def inverse(name: str, op: str, **options: Any) -> Rule:
    """Return a rule that replaces `op(op(x))` by x."""
    options = {"child": op, "size": 2, **options}
    return rule(name, op, match_pair(op, op), lambda graph, res, x: x, **options)


def fusion(name: str, outer: str, inner: str, new: str, **options: Any) -> Rule:
    """Return a rule that replaces `outer(inner(x))` by `new(x)`."""
    options = {"child": inner, "size": 2, **options}

    def make(graph: Any, res: Any, x: str) -> Any:
        return graph.make_node(new, [x], res.outputs)

    return rule(name, outer, match_pair(outer, inner), make, **options)
