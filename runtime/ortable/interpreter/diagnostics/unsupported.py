"""Check a graph before anything is converted: in-place writes, and operators without a converter.
The error has all of them at once, each with its count, the line of the user's model, the closest
spec, and a draft of its YAML entry.
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
    PYTHON,
    SIZE_METHODS,
    alias_of,
    converter_name,
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
class Missing:
    """One target without a converter: its name in the tables, and the nodes that call it."""

    name: str
    target: Any
    nodes: list[Node] = field(default_factory=list)


def check_writes(
    graph_module: GraphModule,
    tables: ConverterTables,
    owner: Any = None,
    elidable_in: ElidableIn | None = None,
) -> None:
    """Raise ConversionError for the first node that writes to one of its arguments."""
    write = first_write(graph_module, tables, owner, elidable_in)
    if write is None:
        return
    node, why = write
    lines = [
        f"{operator_key(node)} writes to its argument: {why}. ONNX has no such operator.",
        *describe_node(node, tables.spec_files),
        "  Functionalise the graph first: to_onnx does it for modules and exported programs, "
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
    """Nodes of the graph, and of the graphs inside it, that have no converter.

    ``find_converter(overload)`` answers for ATen overloads, ``as_graph(module)`` opens submodules
    (None: it cannot); ``owner`` holds the attributes that the graph reads, when that is not
    ``graph_module`` itself; ``elidable_in`` is that of ``first_write``.
    """
    missing: list[Node] = []
    elidable = find_elidable(graph_module, tables, elidable_in)
    holder = graph_module if owner is None else owner
    for node in graph_module.graph.nodes:
        if node.op == "call_function":
            if node not in elidable and not is_known(node, tables, find_converter):
                missing.append(node)
        elif node.op == "call_method":
            if node.target not in tables.methods and node.target not in SIZE_METHODS:
                missing.append(node)
        elif node.op in ("get_attr", "call_module"):
            module = find_attribute(holder, str(node.target), None)
            if is_guard(module) or (node.op == "get_attr" and not isinstance(module, GraphModule)):
                continue
            inner = as_graph(module)
            missing += (
                [node]
                if inner is None
                else missing_nodes(inner, tables, find_converter, as_graph, elidable_in=elidable_in)
            )
    return missing


def is_known(node: Node, tables: ConverterTables, find_converter: FindConverter) -> bool:
    """Whether a function that a node calls has a converter, or needs none."""
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
        user_converter = find_converter(target)  # the user's, which is none of the tables
        return user_converter is not None and user_converter not in tables.hops.values()
    if isinstance(target, HigherOrderOperator):
        ours = (tables.hops, traits.TRANSPARENT, traits.RETURNS)
        return any(target.name() in table for table in ours) or find_converter(target) is not None
    if is_number(node_value(node)):
        return True
    name = qualified_name(target)
    return (
        alias_of(tables, target) is not None or name in traits.ASSERTION or name.startswith(PYTHON)
    )


def group_missing(nodes: Iterable[Node]) -> list[Missing]:
    """Nodes without a converter, grouped by target in the order of the graph."""
    groups: dict[tuple[str, str], Missing] = {}
    for node in nodes:
        name = operator_key(node)
        groups.setdefault((node.op, name), Missing(name, node.target)).nodes.append(node)
    return list(groups.values())


def not_found_error(
    missing: list[Missing], tables: ConverterTables, graph_text: str
) -> FunctionNotFoundError:
    """The error for ``missing``: the first in short, with an entry to start from; ``details`` has
    all of them.

    ``graph_text`` is the graph so far.
    """
    details = [
        _searched_for(missing),
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
    error.max_lines = None  # the summary is short but for the entry, which is there to be copied
    error.advice = advice.make_advice(error, "library")
    return error


def _format_summary(missing: list[Missing], tables: ConverterTables) -> list[str]:
    """What fits into a few lines: the first operator, its place, the names of all, and an entry to
    start from."""
    first = missing[0]
    node = first.nodes[0]
    source, (path, kind) = source_line(node), module_path(node)
    location = f"node '{node.name}'"
    if source is not None:
        location = f"{os.path.basename(source.file)}:{source.line}"
    module = f" (module {path or kind})" if path or kind else ""
    lines = [
        f"Unable to interpret function {first.name}: it has no converter, at {location}{module}"
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
    closest = _closest_spec(first.name, tables)
    file = tables.spec_files.get(closest or "")
    if closest is not None:
        lines.append(shorten_line(f"  closest spec: {closest}" + (f" ({file})" if file else "")))
    draft = [part for line in draft_entry(node) for part in _wrap_line(line)]
    return [*lines, "  start from:", *(f"    {line}" for line in draft)] if draft else lines


def _wrap_line(line: str) -> list[str]:
    """A line of an entry as YAML that a terminal shows whole: what is cut cannot be copied."""
    width = MAX_COLUMNS - 4
    if len(line) > width:
        line = line.partition("  # ")[0]  # a comment does not go on in the next line
    return textwrap.wrap(
        line,
        width,
        subsequent_indent="      ",
        break_long_words=False,
        break_on_hyphens=False,
    )


def _searched_for(missing: list[Missing]) -> str:
    """What was looked for, as torch calls it."""
    first = missing[0]
    node = first.nodes[0]
    kind = type(first.target) if node.op == "call_function" else node.op
    return (
        f"Unable to interpret function {kind}: {first.target!r}, searched for {[first.name]}, "
        f"args={node.args}, kwargs={dict(node.kwargs)}"
    )


def _format_missing(entry: Missing, tables: ConverterTables) -> list[str]:
    node = entry.nodes[0]
    lines = [f"  {entry.name}, {_format_count(len(entry.nodes), 'call')}"]
    locations = list(dict.fromkeys(_node_location(called) for called in entry.nodes))
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
        lines.append(f"    it writes into {names}: an entry returns results, then the new values")
    draft = draft_entry(node)
    return [*lines, "    start from:", *(f"      {line}" for line in draft)] if draft else lines


def _node_location(node: Node) -> str:
    source = source_line(node)
    path, kind = module_path(node)
    text = str(source) if source else f"node '{node.name}'"
    return f"{text} (module {path or kind})" if path or kind else text


def _closest_spec(name: str, tables: ConverterTables) -> str | None:
    plain = {key.partition("::")[2]: key for key in tables.converters}
    short = name.partition("::")[2] or name.rpartition(".")[2]
    matches = difflib.get_close_matches(short, plain, n=1, cutoff=0.7)
    if not matches:
        matches = difflib.get_close_matches(short.partition(".")[0], plain, n=1, cutoff=0.7)
    return plain[matches[0]] if matches else None


def draft_entry(node: Node) -> list[str]:
    """The YAML entry to start from for the target of ``node``, with what the graph tells about
    shapes and types; empty for what a user's file does not hold: higher-order operators, Python
    functions, methods and modules, and writes into a list of tensors."""
    overload = written_overload(node)
    target = overload or node.target
    if not isinstance(target, OpOverload):
        return []
    schema = target._schema
    values = _bind_arguments(node, schema)
    if overload is not None and None in [values[name] for name in written_arguments(overload)]:
        return []
    tensors = [a.name for a in schema.arguments if str(a.type) in ("Tensor", "Optional[Tensor]")]
    lists = [a.name for a in schema.arguments if str(a.type).startswith("List[Tensor")]
    first = tensors[0] if tensors else f"{lists[0]}[0]" if lists else ""
    ignored = [a.name for a in schema.arguments if a.name not in (tensors[:1] or lists[:1])]
    results = _result_examples(node, schema, values)
    outs = [_out_rule(result, tensors, values) for result in results]
    lines = [
        f"- op: {schema}",
        f"  out: {outs[0] if len(outs) == 1 else '[' + ', '.join(outs) + ']'}",
    ]
    if ignored:
        reasons = ", ".join(f"{name}: why" for name in ignored)
        lines.append(f"  unused: {{{reasons}}}  # say why each may be, or read it in lower")
    call = f"{_onnx_operator(schema.name, len(results))}({first})"
    returned = [f"[{call}]"] if _returns_list(schema) else [call] * len(results)
    comment = "  # the ONNX form goes here: a CapWord is one ONNX node"
    lines.append(f"  lower: return {', '.join(returned)}{comment}")
    if any(_is_complex(value) for value in (*values.values(), *results)):
        lines.append(f"  complex: parts({first})  # or the form of the two parts")
    case = ", ".join(f"{name}: {_case_value(values[name])}" for name in values)
    lines.append("  samples: [{" + case + "}]")
    return lines


def _result_examples(node: Node, schema: Any, values: Mapping[str, Any]) -> list[Any]:
    """The examples of the results that ``out`` describes: a list of tensors is one."""
    results = node_value(node)
    if _returns_list(schema):
        return [results]
    if written_overload(node) is not None:
        new = [node_value(values[name]) for name in written_arguments(written_overload(node))]
        return [*results[: len(schema.returns)], *new]
    several = isinstance(results, (list, tuple)) and not is_tensor_like(results)
    return list(results) if several else [results]


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
    if not is_tensor_like(result):
        same = f"same({tensors[0]})" if tensors else "float32"
        return f"{{shape: meta, dtype: {same}}}"
    shape, dtype = "meta", None
    for name in tensors:
        value = values.get(name)
        example: Any = node_value(value) if isinstance(value, Node) else None
        if not is_tensor_like(example):
            continue
        # as text: sizes that depend on data refuse a comparison
        if shape == "meta" and str(tuple(example.shape)) == str(tuple(result.shape)):
            shape = f"same({name})"
        if dtype is None and example.dtype == result.dtype:
            dtype = f"same({name})"
    return f"{{shape: {shape}, dtype: {dtype or str(result.dtype).removeprefix('torch.')}}}"


def _case_value(value: Any) -> str:
    if isinstance(value, Node):
        example = node_value(value)
        if is_tensor_like(example):
            sizes = ",".join(str(d) if isinstance(d, int) else "2" for d in example.shape)
            short = _SHORT_TYPES.get(example.dtype, str(example.dtype).removeprefix("torch."))
            return f'"{short}[{sizes}]"'
        return str(example) if isinstance(example, (int, float, bool)) else "2"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_case_value(item) for item in value) + "]"
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, torch.device):
        return f'"{value.type}"'
    return str(value).removeprefix("torch.")  # a dtype is called by its name


def _onnx_operator(name: str, results: int) -> str:
    """The operator of ONNX that is called as torch's, if it gives as many results; else one that
    takes and gives anything."""
    import onnx.defs

    plain_name = name.partition("::")[2].replace("_", "").lower()
    for schema in onnx.defs.get_all_schemas():
        alike = schema.name.lower() == plain_name and schema.max_input >= 1 >= schema.min_input
        if schema.domain == "" and alike and results == 1:
            return schema.name
    return "Identity"


def _format_count(number: int, word: str) -> str:
    return f"{number} {word}" + ("" if number == 1 else "s")
