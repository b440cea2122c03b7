"""Find nodes that ONNX Runtime cannot run, before or during a conversion, for torch to run.

With `fallback="error"` such nodes are an error. If a conversion needs the value of a symbolic size,
torch guards on that value, and dynamo recompiles for other values.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Sequence
from typing import Any

import torch
from torch.fx import GraphModule, Node

from ortable import dims
from ortable.backend.lower.aot_graph import AotGraph
from ortable.backend.sessions.providers import tensors_in
from ortable.compat.torch import marked_symbols, pytree
from ortable.errors import ConversionError, FunctionNotFoundError, OrtableError, UnsupportedCase
from ortable.interpreter import mutation
from ortable.interpreter.calls import operator_key
from ortable.interpreter.diagnostics.unsupported import (
    group_missing,
    is_convertible,
    missing_nodes,
    not_found_error,
)
from ortable.interpreter.modules import find_attribute
from ortable.interpreter.results import ELEMENT_TYPES
from ortable.interpreter.tables import generated_tables
from ortable.lowerings.control_flow import CHECKS
from ortable_generated.aten import traits

_log = logging.getLogger(__name__)
_SYMBOLIC = (torch.SymInt, torch.SymFloat, torch.SymBool)
_MAX_FAILURES = 3  # at this many failed calls of an operator, all its calls move to torch


def unsupported_nodes(graph: AotGraph, raise_on: Sequence[str]) -> dict[Node, str]:
    """Map calls to reasons if it is known before a conversion that they cannot be converted."""
    reasons: dict[Node, str] = {}
    for node in graph.module.graph.nodes:
        if node.op == "call_function" and not graph.is_mutation(node):
            reason = _unsupported_reason(graph.module, node, raise_on)
            if reason is not None:
                reasons[node] = reason
    return reasons


def make_raise_on_error(graph_module: GraphModule, raise_on: Sequence[str]) -> OrtableError | None:
    """Return the error for a graph that calls an operator in option `raise_on`; None otherwise."""
    for node in graph_module.graph.nodes if raise_on else ():
        if node.op == "call_function" and _is_named(node, raise_on):
            return FunctionNotFoundError(
                f"Operator {operator_key(node)} is refused because option raise_on names it. "
                "Remove it from the option to convert this graph."
            )
    return None


def _is_named(node: Node, raise_on: Sequence[str]) -> bool:
    """Whether `raise_on` names the operator of a node, with or without its overload."""
    name = operator_key(node)
    return name in raise_on or name.partition(".")[0] in raise_on


def raise_for_missing_converters(graph: AotGraph, in_torch: Collection[Node]) -> None:
    """Raise one error for all operators without a converter that are not in `in_torch`."""
    tables = generated_tables()
    missing = missing_nodes(graph.module, tables, _find_converter, lambda module: module)
    missing = [node for node in missing if node not in in_torch and not graph.is_mutation(node)]
    if missing:
        raise not_found_error(group_missing(missing), tables, "")


def find_failed_nodes(
    error: OrtableError, nodes: Sequence[Node], failures: dict[str, int]
) -> dict[Node, str]:
    """Return the nodes of a partition to move to torch after `error`, with the reason.

    This is the node that the error names, or, after a few failures, all calls of its operator. If
    the error names no node of the partition, the result has all nodes.

    Args:
        error: the error of the failed conversion.
        nodes: the nodes of the partition.
        failures: numbers of failed conversions by operator, updated here.
    """
    reason = error.message.strip().splitlines()[0]
    for node in nodes:
        if node.name == error.fx_node:
            name = operator_key(node)
            failures[name] = failures.get(name, 0) + 1
            same_calls = [candidate for candidate in nodes if operator_key(candidate) == name]
            return dict.fromkeys(same_calls if failures[name] >= _MAX_FAILURES else [node], reason)
    return dict.fromkeys(nodes, reason)


def _find_converter(target: Any) -> Any:
    return generated_tables().converters.get(target.name())


def _unsupported_reason(
    graph_module: GraphModule, node: Node, raise_on: Sequence[str]
) -> str | None:
    tables, name = generated_tables(), operator_key(node)
    if _is_named(node, raise_on):
        return "option raise_on names it"
    if name in tables.place and name not in tables.converters:
        return None  # the tables place it in torch
    if name in traits.CARRIES_TOKEN:
        called_operator: Any = node.args[1]
        if called_operator.name() not in CHECKS:
            return f"{called_operator.name()} has a side effect, which an ONNX graph would lose"
    write_reason = mutation.write_reason(node, tables.mutates)
    if write_reason is not None:
        return f"it writes to its argument: {write_reason}"
    if not is_convertible(node, tables, _find_converter):
        return "no entry of the specs converts it"
    for subgraph in _subgraphs(graph_module, node):
        missing = group_missing(
            missing_nodes(subgraph, tables, _find_converter, lambda module: module)
        )
        if missing:
            return f"no entry of the specs converts {missing[0].name} in a graph that it calls"
    for value in tensors_in(
        [value_node.meta.get("val") for value_node in (node, *node.all_input_nodes)]
    ):
        if value.layout is not torch.strided:
            return f"ONNX Runtime accepts only dense tensors, not the layout {value.layout}"
        if value.dtype not in ELEMENT_TYPES or value.dtype is torch.complex32:
            return f"ONNX Runtime does not support the dtype {value.dtype}"
        if value.device.type == "meta":
            return "a tensor is on device meta, which has no data"
    return None


def _subgraphs(graph_module: GraphModule, node: Node) -> Iterator[GraphModule]:
    for input_node in node.all_input_nodes:
        if input_node.op == "get_attr":
            subgraph = find_attribute(graph_module, str(input_node.target), None)
            if isinstance(subgraph, GraphModule):
                yield subgraph


def specialize_sizes(
    graph_module: GraphModule, error: OrtableError, verbose: int = 0, *, must_convert: bool
) -> bool:
    """Make numbers of the sizes that made a conversion fail, with guards on their values.

    These are the sizes that the error names, or, if it names none, all that its node reads.

    Args:
        graph_module: the graph.
        error: the error of the failed conversion.
        verbose: print the specialized sizes if greater than 0.
        must_convert: whether torch may not run the node instead. If it may, sizes that the user
            marked as dynamic stay dynamic, and sizes of tensors are specialized only if the error
            names them.

    Returns:
        Whether a size was specialized. False, for example, if all these sizes depend on data.
    """
    if not isinstance(error, UnsupportedCase | ConversionError):
        return False
    node = next((item for item in graph_module.graph.nodes if item.name == error.fx_node), None)
    if node is None:
        return False
    requested = {name for dim in error.sizes for name in dims.free_symbols(dim)}
    specialized = False
    for symbol, value in _symbols_to_specialize(graph_module, node, requested, must_convert):
        shape_env = value.node.shape_env
        if shape_env.frozen or symbol not in shape_env.backed_var_to_val:
            continue
        if not must_convert and symbol in marked_symbols(shape_env):
            continue
        # evaluating the symbol makes torch guard on its value and replace the symbol
        size = float(value) if isinstance(value, torch.SymFloat) else int(value)
        if shape_env.replace(symbol) == symbol:
            continue  # not replaced: the next conversion would fail the same way
        reason = str(error).partition("\n")[0]
        _log.info("specialized %s = %s, recompiling for other values: %s", symbol, size, reason)
        if verbose:
            print(f"[ortable] specialized {symbol} = {size}: {reason}")
        specialized = True
    return specialized


def _symbols_to_specialize(
    graph_module: GraphModule, node: Node, requested: set[str], must_convert: bool
) -> Iterator[tuple[Any, Any]]:
    """Yield the symbols to specialize, each with a SymInt or SymFloat that is this symbol alone."""
    symbols: set[Any] = set()
    nodes = [node, *node.all_input_nodes]
    if not requested and not must_convert:
        nodes = [item for item in nodes if isinstance(item.meta.get("val"), _SYMBOLIC)]
    for number in _symbolic_numbers(nodes):
        free_symbols = getattr(number.node.expr, "free_symbols", ())
        symbols.update(item for item in free_symbols if not requested or item.name in requested)
    by_symbol = {value.node.expr: value for value in _symbolic_numbers(graph_module.graph.nodes)}
    for symbol in sorted(symbols, key=str):
        if symbol in by_symbol:
            yield symbol, by_symbol[symbol]


def _symbolic_numbers(nodes: Any) -> Iterator[Any]:
    for node in nodes:
        for value in pytree.tree_leaves(node.meta.get("val")):
            if isinstance(value, _SYMBOLIC):
                yield value
            elif isinstance(value, torch.Tensor):
                yield from (size for size in value.shape if isinstance(size, torch.SymInt))
