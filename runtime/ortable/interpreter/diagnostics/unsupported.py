"""Check a graph for in-place writes and for operators without a converter.

The error for missing converters lists all operators concerned, with the number of calls, source
lines, the operator of the most similar name that has a spec, and a draft of an entry.
"""

from __future__ import annotations

import difflib
import os
import textwrap
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.fx import GraphModule, Node

from ortable.compat.torch import HigherOrderOperator, OpOverload
from ortable.errors import ConversionError, FunctionNotFoundError
from ortable.interpreter.calls import (
    PYTHON_PREFIXES,
    SIZE_METHODS,
    converter_name,
    find_call_target,
    operator_key,
    qualified_name,
)
from ortable.interpreter.control_flow import (
    functional_arguments,
    written_arguments,
    written_overload,
)
from ortable.interpreter.modules import find_attribute, is_guard
from ortable.interpreter.mutation import ElidableIn, find_elidable, first_write
from ortable.interpreter.numbers import is_size_target
from ortable.interpreter.outputs import is_number
from ortable.interpreter.results import is_tensor_like, node_value
from ortable.interpreter.tables import ConverterTables
from ortable_generated.aten import traits

from . import advice
from .failures import MAX_COLUMNS, describe_node, shorten_line
from .origin import module_path, source_line

# Names of dtypes in the samples of specs: "f32[2,3]".
_SHORT_TYPES = {
    torch.float32: "f32",
    torch.float64: "f64",
    torch.float16: "f16",
    torch.bfloat16: "bf16",
    torch.int64: "i64",
    torch.int32: "i32",
    torch.int16: "i16",
    torch.int8: "i8",
    torch.uint8: "u8",
    torch.bool: "b",
    torch.complex64: "c64",
    torch.complex128: "c128",
}


FindConverter = Callable[[Any], Any]
AsGraph = Callable[[Any], GraphModule | None]


@dataclass
class MissingOperator:
    """A target without a converter; ``name`` is its key in the tables, ``nodes`` call it."""

    name: str
    target: Any
    nodes: list[Node] = field(default_factory=list)


def check_writes(
    graph_module: GraphModule,
    tables: ConverterTables,
    owner: Any = None,
    elidable_in: ElidableIn | None = None,
) -> None:
    """Raise ConversionError if the graph or a subgraph has an observable write to an argument.

    ``owner`` and ``elidable_in`` are those of `first_write`.
    """
    write = first_write(graph_module, tables, owner, elidable_in)
    if write is None:
        return
    node, reason = write
    lines = [
        f"{operator_key(node)} writes to its argument: {reason}. ONNX has no in-place operators.",
        *describe_node(node, tables.spec_files),
        "  Functionalize the graph first: to_onnx does it for modules and exported programs, "
        "`exported_program.run_decompositions({})` does it in torch.",
    ]
    raise ConversionError("\n".join(lines))


def missing_nodes(
    graph_module: GraphModule,
    tables: ConverterTables,
    find_converter: FindConverter,
    as_graph: AsGraph,
    owner: Any = None,
    elidable_in: ElidableIn | None = None,
) -> list[Node]:
    """Return the nodes of a graph and its subgraphs that have no converter.

    ``find_converter`` returns the converter of a target, or None. ``as_graph`` returns the graph of
    a submodule, or None if it cannot be traced. ``owner`` and ``elidable_in`` are those of
    `first_write`.
    """
    missing: list[Node] = []
    elidable = find_elidable(graph_module, tables, elidable_in)
    attribute_owner = graph_module if owner is None else owner
    for node in graph_module.graph.nodes:
        if node.op == "call_function":
            if node not in elidable and not is_convertible(node, tables, find_converter):
                missing.append(node)
        elif node.op == "call_method":
            if node.target not in tables.methods and node.target not in SIZE_METHODS:
                missing.append(node)
        elif node.op in ("get_attr", "call_module"):
            module = find_attribute(attribute_owner, str(node.target), None)
            if is_guard(module) or (node.op == "get_attr" and not isinstance(module, GraphModule)):
                continue
            subgraph = as_graph(module)
            missing += (
                [node]
                if subgraph is None
                else missing_nodes(
                    subgraph, tables, find_converter, as_graph, elidable_in=elidable_in
                )
            )
    return missing


def is_convertible(node: Node, tables: ConverterTables, find_converter: FindConverter) -> bool:
    """Whether the function that a node calls has a converter or does not need one."""
    target = node.target
    if isinstance(target, OpOverload):
        name = target.name()
        if name in traits.ASSERTION or name in traits.METADATA_ONLY or not node.users:
            return True
        if find_converter(target) is not None:
            return True
        return is_size_target(target) and is_number(node_value(node))
    overload = written_overload(node)
    if overload is not None and find_converter(overload) is not None:
        return True
    if overload is not None:
        # the tables' converter of the wrapper does not support custom operators
        user_converter = find_converter(target)
        return user_converter is not None and user_converter not in tables.hops.values()
    if isinstance(target, HigherOrderOperator):
        converter_tables = (tables.hops, traits.TRANSPARENT, traits.RETURNS)
        return (
            any(target.name() in table for table in converter_tables)
            or find_converter(target) is not None
        )
    if is_number(node_value(node)):
        return True
    name = qualified_name(target)
    return (
        find_call_target(tables, target) is not None
        or name in traits.ASSERTION
        or name.startswith(PYTHON_PREFIXES)
    )


def group_missing(nodes: Iterable[Node]) -> list[MissingOperator]:
    """Group nodes without a converter by target, in the order of their first nodes."""
    groups: dict[tuple[str, str], MissingOperator] = {}
    for node in nodes:
        name = operator_key(node)
        groups.setdefault((node.op, name), MissingOperator(name, node.target)).nodes.append(node)
    return list(groups.values())


def not_found_error(
    missing: list[MissingOperator], tables: ConverterTables, graph_text: str
) -> FunctionNotFoundError:
    """Return the error for targets without a converter.

    The message describes the first one and names all; ``details`` describes all.
    """
    details = [
        _format_search(missing),
        f"{_format_count(len(missing), 'operator')} of this graph without a converter:",
        "",
    ]
    for entry in missing:
        details += [*_format_missing(entry, tables), ""]
    error = FunctionNotFoundError(
        "\n".join(_format_summary(missing, tables)),
        graph_text=graph_text,
        details="\n".join(details),
    )
    error.operators = tuple(entry.name for entry in missing)
    error.converter_name = converter_name(tables, missing[0].nodes[0])
    error.drafted = bool(draft_entry(missing[0].nodes[0]))
    error.max_lines = None  # the entry must not be cut, because users copy it
    error.advice = advice.make_advice(error, "library")
    return error


def _format_summary(missing: list[MissingOperator], tables: ConverterTables) -> list[str]:
    """Format the first operator with its location, the names of all, and a draft of an entry."""
    first_missing = missing[0]
    node = first_missing.nodes[0]
    source, (path, class_name) = source_line(node), module_path(node)
    location = f"node '{node.name}'"
    if source is not None:
        location = f"{os.path.basename(source.file)}:{source.line}"
    module = f" (module {path or class_name})" if path or class_name else ""
    lines = [
        f"Unable to interpret function {first_missing.name}: it has no converter, "
        f"at {location}{module}"
    ]
    if source is not None and source.code:
        lines.append(shorten_line(f"    {source.code}"))
    calls = "; ".join(
        f"{entry.name}, {_format_count(len(entry.nodes), 'call')}" for entry in missing
    )
    lines += textwrap.wrap(
        f"{_format_count(len(missing), 'operator')} of this graph without a converter: {calls}",
        MAX_COLUMNS,
        initial_indent="  ",
        subsequent_indent="    ",
        max_lines=3,
        placeholder=" ... (error.details has all)",
        break_long_words=False,
        break_on_hyphens=False,
    )
    if node.op == "call_module":
        lines.append("  torch cannot trace this module symbolically")
    closest = _closest_spec(first_missing.name, tables)
    file = tables.spec_files.get(closest or "")
    if closest is not None:
        lines.append(shorten_line(f"  closest spec: {closest}" + (f" ({file})" if file else "")))
    draft = [part for line in draft_entry(node) for part in _wrap_line(line)]
    return [*lines, "  start from:", *(f"    {line}" for line in draft)] if draft else lines


def _wrap_line(line: str) -> list[str]:
    """Wrap a line of YAML to the width of a terminal; users copy it, so it must not be cut."""
    width = MAX_COLUMNS - 4
    if len(line) > width:
        line = line.partition("  # ")[0]  # a comment cannot continue in the next line
    return textwrap.wrap(
        line,
        width,
        subsequent_indent="      ",
        break_long_words=False,
        break_on_hyphens=False,
    )


def _format_search(missing: list[MissingOperator]) -> str:
    """Return the first line of the details: the first target, and the arguments of its call."""
    first_missing = missing[0]
    node = first_missing.nodes[0]
    node_kind = type(first_missing.target) if node.op == "call_function" else node.op
    return (
        f"Unable to interpret function {node_kind}: {first_missing.target!r}, "
        f"searched for {[first_missing.name]}, args={node.args}, kwargs={dict(node.kwargs)}"
    )


def _format_missing(entry: MissingOperator, tables: ConverterTables) -> list[str]:
    node = entry.nodes[0]
    lines = [f"  {entry.name}, {_format_count(len(entry.nodes), 'call')}"]
    locations = list(dict.fromkeys(_node_location(call_node) for call_node in entry.nodes))
    lines += [f"    at {location}" for location in locations[:3] if location]
    if len(locations) > 3:
        lines.append(f"    and {len(locations) - 3} more lines")
    closest = _closest_spec(entry.name, tables)
    if closest:
        spec = tables.spec_files.get(closest)
        lines.append(f"    closest spec: {closest}" + (f" ({spec})" if spec else ""))
    overload = written_overload(node)
    if overload is not None:
        names = ", ".join(written_arguments(overload))
        lines.append(f"    it writes to {names}: an entry returns results, then the new values")
    draft = draft_entry(node)
    return [*lines, "    start from:", *(f"      {line}" for line in draft)] if draft else lines


def _node_location(node: Node) -> str:
    source = source_line(node)
    path, class_name = module_path(node)
    text = str(source) if source else f"node '{node.name}'"
    return f"{text} (module {path or class_name})" if path or class_name else text


def _closest_spec(name: str, tables: ConverterTables) -> str | None:
    keys_by_name = {key.partition("::")[2]: key for key in tables.converters}
    short_name = name.partition("::")[2] or name.rpartition(".")[2]
    matches = difflib.get_close_matches(short_name, keys_by_name, n=1, cutoff=0.7)
    if not matches:
        matches = difflib.get_close_matches(
            short_name.partition(".")[0], keys_by_name, n=1, cutoff=0.7
        )
    return keys_by_name[matches[0]] if matches else None


def draft_entry(node: Node) -> list[str]:
    """Draft the lines of a YAML entry for a node's target, with shapes and types of its arguments.

    The draft is empty for targets that a user's file cannot contain, such as Python functions.
    """
    overload = written_overload(node)
    target = overload or node.target
    if not isinstance(target, OpOverload):
        return []
    schema = target._schema
    values = _bind_arguments(node, schema)
    if overload is not None and None in [values[name] for name in written_arguments(overload)]:
        return []
    tensors = [
        argument.name
        for argument in schema.arguments
        if str(argument.type) in ("Tensor", "Optional[Tensor]")
    ]
    lists = [
        argument.name
        for argument in schema.arguments
        if str(argument.type).startswith("List[Tensor")
    ]
    operand = tensors[0] if tensors else f"{lists[0]}[0]" if lists else ""
    unused = [
        argument.name
        for argument in schema.arguments
        if argument.name not in (tensors[:1] or lists[:1])
    ]
    results = _result_examples(node, schema, values)
    rules = [_out_rule(result, tensors, values) for result in results]
    lines = [
        f"- op: {schema}",
        f"  out: {rules[0] if len(rules) == 1 else '[' + ', '.join(rules) + ']'}",
    ]
    if unused:
        reasons = ", ".join(f"{name}: why" for name in unused)
        lines.append(f"  unused: {{{reasons}}}  # give each a reason, or use it in lower")
    call = f"{_onnx_operator(schema.name, len(results))}({operand})"
    returned = [f"[{call}]"] if _returns_list(schema) else [call] * len(results)
    comment = "  # the ONNX form goes here: a CapWord is one ONNX node"
    lines.append(f"  lower: return {', '.join(returned)}{comment}")
    if any(_is_complex(value) for value in (*values.values(), *results)):
        lines.append(f"  complex: parts({operand})  # or the form of the two parts")
    sample = ", ".join(f"{name}: {_sample_text(values[name])}" for name in values)
    lines.append("  samples: [{" + sample + "}]")
    return lines


def _result_examples(node: Node, schema: Any, values: Mapping[str, Any]) -> list[Any]:
    """Return the metadata of the results that ``out`` describes; a returned list counts as one.

    The results of a functionalized call are followed by the written arguments.
    """
    results = node_value(node)
    if _returns_list(schema):
        return [results]
    if written_overload(node) is not None:
        new_values = [
            node_value(values[name]) for name in written_arguments(written_overload(node))
        ]
        return [*results[: len(schema.returns)], *new_values]
    has_several = isinstance(results, (list, tuple)) and not is_tensor_like(results)
    return list(results) if has_several else [results]


def _returns_list(schema: Any) -> bool:
    return len(schema.returns) == 1 and str(schema.returns[0].type).startswith("List[")


def _is_complex(value: Any) -> bool:
    example = node_value(value) if isinstance(value, Node) else value
    return is_tensor_like(example) and str(example.dtype).startswith("torch.complex")


def _bind_arguments(node: Node, schema: Any) -> dict[str, Any]:
    names = [argument.name for argument in schema.arguments]
    if written_overload(node) is not None:
        return functional_arguments(schema, node.kwargs)[0]
    bound = dict(zip(names, node.args, strict=False))
    bound.update(node.kwargs)
    return bound


def _out_rule(result: Any, tensors: list[str], values: Mapping[str, Any]) -> str:
    """Return the ``out`` of a result, such as ``{shape: same(x), dtype: int64}``."""
    if not is_tensor_like(result):
        dtype_rule = f"same({tensors[0]})" if tensors else "float32"
        return f"{{shape: meta, dtype: {dtype_rule}}}"
    shape, dtype = "meta", None
    for name in tensors:
        value = values.get(name)
        example: Any = node_value(value) if isinstance(value, Node) else None
        if not is_tensor_like(example):
            continue
        # compared as text, because comparing data-dependent sizes raises an error
        if shape == "meta" and str(tuple(example.shape)) == str(tuple(result.shape)):
            shape = f"same({name})"
        if dtype is None and example.dtype == result.dtype:
            dtype = f"same({name})"
    return f"{{shape: {shape}, dtype: {dtype or str(result.dtype).removeprefix('torch.')}}}"


def _sample_text(value: Any) -> str:
    if isinstance(value, Node):
        example = node_value(value)
        if is_tensor_like(example):
            sizes = ",".join(str(size) if isinstance(size, int) else "2" for size in example.shape)
            dtype_text = _SHORT_TYPES.get(example.dtype, str(example.dtype).removeprefix("torch."))
            return f'"{dtype_text}[{sizes}]"'
        return str(example) if isinstance(example, (int, float, bool)) else "2"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_sample_text(item) for item in value) + "]"
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, torch.device):
        return f'"{value.type}"'
    return str(value).removeprefix("torch.")  # specs contain dtypes without the prefix


def _onnx_operator(name: str, result_count: int) -> str:
    """Return the ONNX operator of the same name that accepts one input, or "Identity".

    It is Identity, too, if torch's operator has several results.
    """
    import onnx.defs

    torch_name = name.partition("::")[2].replace("_", "").lower()
    for schema in onnx.defs.get_all_schemas():
        is_match = schema.name.lower() == torch_name and schema.max_input >= 1 >= schema.min_input
        if schema.domain == "" and is_match and result_count == 1:
            return schema.name
    return "Identity"


def _format_count(number: int, noun: str) -> str:
    return f"{number} {noun}" + ("" if number == 1 else "s")
