"""Wrap errors of converters with FX node, operator, arguments, module and source line."""

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
    """Describe a node: schema, arguments, spec, module, source line.

    ``case`` is the number of the case of the spec's entry that was chosen, 0 if it has none.
    """
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
    path, class_name = module_path(node)
    if path or class_name:
        lines.append(f"  module: {path or '(root)'}" + (f" ({class_name})" if class_name else ""))
    source = source_line(node)
    if source is not None:
        lines.append(f"  source: {source.file}:{source.line}: {source.code}")
    return lines


def wrap_error(
    error: Exception, node: Node, spec_files: Mapping[str, str], graph: Graph
) -> OrtableError:
    """Return the error to raise in place of an error of a converter.

    It is an UnsupportedCase if the error is one, for a BuilderError if the arguments have several
    floating dtypes, the ONNX operator does not support a dtype, or a shape is unknown because
    different dynamic sizes are broadcast, and for a Python error if an argument is a number that
    the model computes. Other errors become a ConversionError. To an error of a subgraph, only the
    name of the calling node is added.
    """
    error_type: type[OrtableError] = (
        UnsupportedCase if isinstance(error, UnsupportedCase) else ConversionError
    )
    float_dtypes = _float_dtypes(node) if type(error) is BuilderError else []
    if len(float_dtypes) > 1:
        error_type = UnsupportedCase
        error = UnsupportedCase(
            f"its arguments have several dtypes, {' and '.join(float_dtypes)}; cast them to one",
            details=str(error),
        )
    elif not isinstance(error, OrtableError) and (numbers := _computed_numbers(node)):
        error_type = UnsupportedCase
        error = UnsupportedCase(
            f"'{numbers[0]}' is a number that the model computes from sizes, but the converter "
            "needs a static number; make that dimension static, or compute with a tensor",
            details=f"{type(error).__name__}: {error}",
        )
    elif isinstance(error, BuilderError) and error.without_dtype:
        error_type = UnsupportedCase
    elif isinstance(error, BuilderError) and error.without_shape and len(_sym_sizes(node)) > 1:
        error_type = UnsupportedCase
        error = UnsupportedCase(
            f"the shape of its result is unknown, because the dynamic sizes "
            f"{' and '.join(_sym_sizes(node))} are broadcast and each may be 1; give equal sizes "
            "the same name (dynamic_shapes), or state it in the model: "
            "torch._check(x.size(0) == y.size(0))",
            tuple(_sym_sizes(node).values()),
            details=str(error),
        )
    text = error.message if isinstance(error, OrtableError) else f"{type(error).__name__}: {error}"
    if isinstance(error, (ConversionError, UnsupportedCase)) and error.fx_node is not None:
        lines = [text, f"  inside node '{node.name}'"]
    else:
        verb = (
            "is not supported for these arguments"
            if error_type is UnsupportedCase
            else "could not be converted"
        )
        first_line, *other_lines = text.split("\n")
        subject = operator_key(node) if node.op.startswith("call_") else f"{node.op} '{node.name}'"
        headline = f"{_source_prefix(node)}{subject} {verb}: {first_line}"
        lines = [headline, *other_lines, *describe_node(node, spec_files, graph.case)]
    graph_text, inner_details = "", []
    if isinstance(error, OrtableError):
        graph_text, inner_details = error.graph_text, [error.details]
    wrapped_error = error_type(
        "\n".join(shorten_line(line) for line in lines),
        graph_text=graph_text or graph.get_debug_msg(),
        details="\n".join([*lines, *inner_details]),
    )
    wrapped_error.sizes = getattr(error, "sizes", ())
    return wrapped_error


def _computed_numbers(node: Node) -> list[str]:
    """Return the names of arguments that are numbers in the schema and nodes in the graph."""
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
    """Return the dynamic sizes of the shapes of a node's arguments, by their text."""
    shapes = [getattr(node_value(operand), "shape", ()) for operand in node.all_input_nodes]
    sizes = {str(size): size for shape in shapes for size in shape if not isinstance(size, int)}
    return {name: dims.from_torch(sizes[name]) for name in sorted(sizes)}


def _float_dtypes(node: Node) -> list[str]:
    """Return the names of the floating dtypes of a node's tensor arguments."""
    if not isinstance(node.target, OpOverload):
        return []
    values = [node_value(operand) for operand in node.all_input_nodes]
    dtypes = {
        value.dtype
        for value in values
        if isinstance(value, torch.Tensor) and value.dtype.is_floating_point
    }
    return sorted(str(dtype).removeprefix("torch.") for dtype in dtypes)


def _source_prefix(node: Node) -> str:
    """Return ``model.py:7: `` as at the start of a compiler message, or an empty string."""
    source = source_line(node)
    return "" if source is None else f"{os.path.basename(source.file)}:{source.line}: "


def shorten_line(line: str) -> str:
    """Shorten an indented line to MAX_COLUMNS; other lines are headlines and are not cut."""
    if len(line) <= MAX_COLUMNS or not line.startswith(" "):
        return line
    return line[: MAX_COLUMNS - 4] + " ..."


def node_position(node: Node) -> tuple[int, int]:
    """Return the index (from 0) of a node in its graph, and the number of nodes of the graph."""
    nodes = list(node.graph.nodes)
    return nodes.index(node), len(nodes)


def graph_text(graph_module: GraphModule | None, node: Any, values: Mapping[Node, Any]) -> str:
    """Return the FX part of the debug message: users, shapes and values, graph, current node.

    ``node`` is the node that is being converted, ``values`` are the converted values so far.
    """
    if graph_module is None:
        return ""
    graph = graph_module.graph
    lines = ["--TORCH-USERS--"]
    lines += [
        f"{fx_node.name} -> {{{', '.join(user.name for user in fx_node.users)}}}"
        for fx_node in graph.nodes
        if fx_node.users
    ]
    lines.append("--TORCH-SHAPES--")
    for fx_node in graph.nodes:
        if fx_node.op != "output":
            converted = values.get(fx_node)
            lines.append(
                f"{fx_node.name}: {describe_value(node_value(fx_node))}"
                + (f" --- {converted}" if fx_node in values else "")
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
