"""Errors of converters, with what a reader needs: the FX node, the operator, its arguments, the
module, the user's line. Built only when something failed; the original exception is chained."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import torch
from torch.fx import GraphModule, Node

from ortable import dims
from ortable.compat.torch import OpOverload
from ortable.dims import Dim
from ortable.errors import BuilderError, ConversionError, OrtableError, UnsupportedCase
from ortable.interpreter.calls import operator_key
from ortable.interpreter.results import describe_value, node_value
from ortable.ir import Graph

from .origin import module_path, source_line, target_name

MAX_COLUMNS = 120


def describe_node(node: Node, spec_files: Mapping[str, str], case: int = 0) -> list[str]:
    """Lines that say what ``node`` is and where it comes from; ``case``: which of the cases of its
    entry was taken."""
    name = operator_key(node)
    target = node.target
    schema = str(target._schema) if isinstance(target, OpOverload) else name
    index, count = node_position(node)
    lines = [
        f"  node '{node.name}' ({index}/{count}): {schema}",
        f"  arguments: {_format_arguments(node)}",
    ]
    if name in spec_files:
        lines.append(f"  spec: {spec_files[name]}" + (f", case {name}/{case}" if case else ""))
    path, kind = module_path(node)
    if path or kind:
        lines.append(f"  module: {path or '(root)'}" + (f" ({kind})" if kind else ""))
    source = source_line(node)
    if source is not None:
        lines.append(f"  source: {source.file}:{source.line}: {source.code}")
    return lines


def wrap_error(
    error: Exception, node: Node, spec_files: Mapping[str, str], graph: Graph
) -> OrtableError:
    """The error to raise in place of ``error``: UnsupportedCase stays one; types that do not fit
    are one where torch computes with several floating dtypes, or an operator of ONNX does not have
    the dtype; so are shapes that cannot be told where sizes of several names meet, and what Python
    cannot do with a number that the model computes. Everything else is a ConversionError.

    An error of a graph inside the graph keeps its own node in front, and gets the node that calls
    it.
    """
    kind: type[OrtableError] = (
        UnsupportedCase if isinstance(error, UnsupportedCase) else ConversionError
    )
    mixed = _float_dtypes(node) if type(error) is BuilderError else []
    if len(mixed) > 1:
        kind = UnsupportedCase
        error = UnsupportedCase(
            f"its arguments are of several dtypes, {' and '.join(mixed)}; cast them to one",
            details=str(error),
        )
    elif not isinstance(error, OrtableError) and (numbers := _computed_numbers(node)):
        kind = UnsupportedCase
        error = UnsupportedCase(
            f"'{numbers[0]}' is a number that the model computes of sizes, and the converter needs "
            "one that is known before; leave that dimension static, or compute with a tensor",
            details=f"{type(error).__name__}: {error}",
        )
    elif isinstance(error, BuilderError) and error.without_dtype:
        kind = UnsupportedCase
    elif isinstance(error, BuilderError) and error.without_shape and len(_sym_sizes(node)) > 1:
        kind = UnsupportedCase
        error = UnsupportedCase(
            f"sizes of several names meet, {' and '.join(_sym_sizes(node))}, and a shape cannot be "
            "told where either may be 1; give sizes that are equal one name (dynamic_shapes), or "
            "say so in the model: torch._check(x.size(0) == y.size(0))",
            tuple(_sym_sizes(node).values()),
            details=str(error),
        )
    text = error.message if isinstance(error, OrtableError) else f"{type(error).__name__}: {error}"
    if isinstance(error, (ConversionError, UnsupportedCase)) and error.fx_node is not None:
        lines = [text, f"  inside node '{node.name}'"]
    else:
        verb = (
            "is not supported for these arguments"
            if kind is UnsupportedCase
            else "could not be converted"
        )
        first, *rest = text.split("\n")
        what = operator_key(node) if node.op.startswith("call_") else f"{node.op} '{node.name}'"
        headline = f"{_source_prefix(node)}{what} {verb}: {first}"
        lines = [headline, *rest, *describe_node(node, spec_files, graph.case)]
    graph_text, inner_details = "", []
    if isinstance(error, OrtableError):
        graph_text, inner_details = error.graph_text, [error.details]
    wrapped_error = kind(
        "\n".join(shorten_line(line) for line in lines),
        graph_text=graph_text or graph.get_debug_msg(),
        details="\n".join([*lines, *inner_details]),
    )
    wrapped_error.sizes = getattr(error, "sizes", ())
    return wrapped_error


def _computed_numbers(node: Node) -> list[str]:
    """Names of the arguments that are numbers in the operator's schema and nodes in the graph."""
    if not isinstance(node.target, OpOverload):
        return []
    schema = node.target._schema.arguments
    values = {argument.name: value for argument, value in zip(schema, node.args, strict=False)}
    values |= node.kwargs
    numbers = ("number", "float", "int", "Optional[number]", "Optional[float]", "Optional[int]")
    return [
        argument.name
        for argument in schema
        if str(argument.type) in numbers and isinstance(values.get(argument.name), Node)
    ]


def _sym_sizes(node: Node) -> dict[str, Dim]:
    """The dynamic sizes of a node's arguments, by their names."""
    shapes = [getattr(node_value(operand), "shape", ()) for operand in node.all_input_nodes]
    sizes = {str(size): size for shape in shapes for size in shape if not isinstance(size, int)}
    return {name: dims.from_torch(sizes[name]) for name in sorted(sizes)}


def _float_dtypes(node: Node) -> list[str]:
    """Names of the floating dtypes among the tensors that an operator of torch is given."""
    if not isinstance(node.target, OpOverload):
        return []
    values = [node_value(operand) for operand in node.all_input_nodes]
    dtypes = {v.dtype for v in values if isinstance(v, torch.Tensor) and v.dtype.is_floating_point}
    return sorted(str(dtype).removeprefix("torch.") for dtype in dtypes)


def _source_prefix(node: Node) -> str:
    """The line of the user's model, as compilers begin a headline."""
    source = source_line(node)
    return "" if source is None else f"{os.path.basename(source.file)}:{source.line}: "


def shorten_line(line: str) -> str:
    """A line that a terminal shows in one piece; headlines say what failed and are never cut."""
    if len(line) <= MAX_COLUMNS or not line.startswith(" "):
        return line
    return line[: MAX_COLUMNS - 4] + " ..."


def node_position(node: Node) -> tuple[int, int]:
    """Position of ``node`` in its graph, and the number of nodes of the graph."""
    nodes = list(node.graph.nodes)
    return nodes.index(node), len(nodes)


def graph_text(graph_module: GraphModule | None, node: Any, values: Mapping[Node, Any]) -> str:
    """The part of a graph's debug message that is about FX: users, shapes, the graph, and how far
    it went, up to ``node``; ``values`` is what the nodes became."""
    if graph_module is None:
        return ""
    graph = graph_module.graph
    lines = ["--TORCH-USERS--"]
    lines += [
        f"{n.name} -> {{{', '.join(u.name for u in n.users)}}}" for n in graph.nodes if n.users
    ]
    lines.append("--TORCH-SHAPES--")
    for n in graph.nodes:
        if n.op != "output":
            became = values.get(n)
            lines.append(
                f"{n.name}: {describe_value(node_value(n))}"
                + (f" --- {became}" if n in values else "")
            )
    lines += ["-- process.graph_module --", str(graph).strip()]
    if isinstance(node, Node):
        index, count = node_position(node)
        lines += [
            "-- process.progress --",
            f"node {index}/{count} target={target_name(node.target)}",
        ]
    return "\n".join(lines)


def _format_arguments(node: Node) -> str:
    parts = [_format_argument(arg) for arg in node.args]
    parts += [f"{name}={_format_argument(arg)}" for name, arg in node.kwargs.items()]
    return ", ".join(parts) or "none"


def _format_argument(value: Any) -> str:
    if isinstance(value, Node):
        return f"{value.name}:{describe_value(node_value(value))}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_format_argument(item) for item in value) + "]"
    return repr(value)
