"""Compare the shape and dtype rules of the specs with torch's metadata on an exported graph."""

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
    """Return a line for each rule that contradicts its node's metadata; the shapes are static."""
    builder = GraphBuilder(18)
    values: dict[Node, Any] = {}
    differences = []
    for node in graph.nodes:
        value = node.meta.get("val")
        if node.op == "call_function" and isinstance(node.target, torch._ops.OpOverload):
            rule = RULES.get(node.target.name())
            if (
                rule is not None
                and _has_known_inputs(node, values)
                and not _is_refused_complex(node)
            ):
                differences += _compare_rule(builder, node, rule, values)
        if value is not None and node.op != "output":
            values[node] = _declare_inputs(builder, node.name, value)
    return differences


def _declare_inputs(builder: GraphBuilder, name: str, value: Any) -> Any:
    """Make an input of the builder for each tensor of ``value``; return other values unchanged."""
    if isinstance(value, torch.Tensor):
        if value.dtype not in ELEMENT_TYPES:
            return None  # complex32 has no ONNX type; the conversion refuses it
        dtype = dtypes.from_torch(value.dtype)
        return builder.make_tensor_input(name, dtype, tuple(value.shape))
    if isinstance(value, list | tuple):
        return [_declare_inputs(builder, f"{name}_{i}", item) for i, item in enumerate(value)]
    return value


def _is_refused_complex(node: Node) -> bool:
    """Return whether the node has a complex tensor that its operator can not convert."""
    values = [node.meta.get("val"), *(value.meta.get("val") for value in node.all_input_nodes)]
    has_complex = any(isinstance(value, torch.Tensor) and value.is_complex() for value in values)
    assert isinstance(node.target, torch._ops.OpOverload)
    return has_complex and node.target.name() not in COMPLEX_CONVERTERS


def _has_known_inputs(node: Node, values: dict[Node, Any]) -> bool:
    return all(source in values for source in node.all_input_nodes)


def _compare_rule(
    builder: GraphBuilder, node: Node, rule: Any, values: dict[Node, Any]
) -> list[str]:
    args, kwargs = convert_arguments(node, values, None)
    name = node.target.name()  # type: ignore[union-attr]
    try:
        rule_results = rule(builder, *args, **kwargs)
    except UnsupportedCase:
        return []
    except Exception as error:
        return [f"the rule of {name} failed: {type(error).__name__}: {error}"]
    value = node.meta["val"]
    results = list(value) if isinstance(value, list | tuple) else [value]
    wrong = []
    for (dtype, shape), result in zip(rule_results, results, strict=False):
        if not isinstance(result, torch.Tensor):
            continue
        if dtype is not None and dtypes.to_torch(dtype) != result.dtype:
            wrong.append(f"the rule of {name} says {dtypes.name(dtype)}, torch {result.dtype}")
        if shape is not None and tuple(shape) != tuple(result.shape):
            wrong.append(f"the rule of {name} says {tuple(shape)}, torch {tuple(result.shape)}")
    return wrong
