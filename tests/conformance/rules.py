"""The shape and dtype rules of the specs on every node of an exported graph: what a rule says must
be what torch says of the node."""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import Node

from ortable import dtypes
from ortable.builder import GraphBuilder
from ortable.errors import UnsupportedCase
from ortable.interpreter.results import ELEMENT_TYPES, convert_arguments
from ortable_generated.aten.dispatch import COMPLEX_CONVERTERS, RULES


def rule_differences(graph: torch.fx.Graph) -> list[str]:
    """One line for each rule that says another dtype or shape than the metadata of its node.

    The graph has static shapes. A rule that leaves a shape or dtype open says nothing wrong.
    """
    builder = GraphBuilder(18)
    values: dict[Node, Any] = {}
    found = []
    for node in graph.nodes:
        value = node.meta.get("val")
        if node.op == "call_function" and isinstance(node.target, torch._ops.OpOverload):
            rule = RULES.get(node.target.name())
            if rule is not None and _expressible(node, values) and not _refused(node):
                found += _compare(builder, node, rule, values)
        if value is not None and node.op != "output":
            values[node] = _declare(builder, node.name, value)
    return found


def _declare(builder: GraphBuilder, name: str, value: Any) -> Any:
    """An input of the builder for each tensor of ``value``; other values as they are."""
    if isinstance(value, torch.Tensor):
        if value.dtype not in ELEMENT_TYPES:
            return None  # complex32 has no ONNX type: the conversion refuses it
        dtype = dtypes.from_torch(value.dtype)
        return builder.make_tensor_input(name, dtype, tuple(value.shape))
    if isinstance(value, list | tuple):
        return [_declare(builder, f"{name}_{place}", each) for place, each in enumerate(value)]
    return value


def _refused(node: Node) -> bool:
    """A complex tensor where the operator has no form for it: whatever the rule says, it is not
    asked."""
    near = [node.meta.get("val"), *(each.meta.get("val") for each in node.all_input_nodes)]
    has_complex = any(isinstance(each, torch.Tensor) and each.is_complex() for each in near)
    assert isinstance(node.target, torch._ops.OpOverload)
    return has_complex and node.target.name() not in COMPLEX_CONVERTERS


def _expressible(node: Node, values: dict[Node, Any]) -> bool:
    return all(each in values for each in node.all_input_nodes)


def _compare(builder: GraphBuilder, node: Node, rule: Any, values: dict[Node, Any]) -> list[str]:
    args, kwargs = convert_arguments(node, values, None)
    name = node.target.name()  # type: ignore[union-attr]
    try:
        answers = rule(builder, *args, **kwargs)
    except UnsupportedCase:
        return []
    except Exception as error:
        return [f"the rule of {name} failed: {type(error).__name__}: {error}"]
    value = node.meta["val"]
    results = list(value) if isinstance(value, list | tuple) else [value]
    found = []
    for (dtype, shape), result in zip(answers, results, strict=False):
        if not isinstance(result, torch.Tensor):
            continue
        if dtype is not None and dtypes.to_torch(dtype) != result.dtype:
            found.append(f"the rule of {name} says {dtypes.name(dtype)}, torch {result.dtype}")
        if shape is not None and tuple(shape) != tuple(result.shape):
            found.append(f"the rule of {name} says {tuple(shape)}, torch {tuple(result.shape)}")
    return found
