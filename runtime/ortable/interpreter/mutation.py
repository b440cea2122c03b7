"""Find in-place writes of an FX graph, and those that can be converted as functional operators.

A graph with observable writes must be functionalized by torch first, which takes longer than the
conversion. A write is unobservable if the graph made the written tensor and no view of it exists.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import GraphModule, Node
from torch.fx.node import map_arg

from ortable.compat.torch import OpOverload, is_composite
from ortable.interpreter.calls import AUGMENTED_ASSIGNMENTS, find_call_target
from ortable.interpreter.control_flow import is_wrapped_subgraph
from ortable.interpreter.modules import find_attribute
from ortable.interpreter.results import UNKNOWN, is_tensor_like, node_value
from ortable.interpreter.tables import ConverterTables
from ortable_generated.aten import traits


@dataclass(frozen=True)
class ElidableMutation:
    """An unobservable write, which is converted as a call of the functional ``overload``.

    ``aliases`` are the earlier nodes whose value is the written tensor: the node that made it, then
    all earlier writes to it.
    """

    overload: Any
    aliases: tuple[Node, ...]


ElidableIn = Callable[[GraphModule], Mapping[Node, ElidableMutation]]


def elidable_mutations(
    graph_module: GraphModule, has_converter: Callable[[str], bool]
) -> dict[Node, ElidableMutation]:
    """Return the writes of a graph that can be converted as functional operators.

    The graph must make the written tensor, and before the write only read it or write to it in the
    same way. All operands must have the dtype of the tensor, and the functional overload must have
    a converter (``has_converter`` receives its name).
    """
    mutations: dict[Node, ElidableMutation] = {}
    order: dict[Node, int] = {}
    for index, node in enumerate(graph_module.graph.nodes):
        order[node] = index
        if isinstance(node.target, OpOverload) and node.target._schema.is_mutable:
            write = _make_elidable(node, mutations, order, has_converter)
            if write is not None:
                mutations[node] = write
    return mutations


def _make_elidable(
    node: Node,
    elidable: dict[Node, ElidableMutation],
    order: dict[Node, int],
    has_converter: Callable[[str], bool],
) -> ElidableMutation | None:
    overload = _functional_overload(node.target)
    if overload is None or not has_converter(overload.name()):
        return None
    written_node = node.args[0] if node.args else None
    if (
        not isinstance(written_node, Node)
        or not _same_dtype(node)
        or not _keeps_dtype(node, overload)
    ):
        return None
    origin = elidable[written_node].aliases[0] if written_node in elidable else written_node
    earlier_writes = (write for write, other in elidable.items() if other.aliases[0] is origin)
    aliases = (origin, *earlier_writes)
    if not _is_fresh(origin):
        return None
    for alias in aliases:
        for user in alias.users:
            if (
                user in order
                and user is not node
                and user not in elidable
                and not _is_read_only_call(user)
            ):
                return None
    return ElidableMutation(overload, aliases)


def _functional_overload(target: Any) -> Any:
    """Return the functional overload of an in-place one (``relu`` for ``relu_``), or None."""
    schema = target._schema
    name, overload = schema.name, schema.overload_name
    written = [
        argument
        for argument in schema.arguments
        if argument.alias_info is not None and argument.alias_info.is_write
    ]
    if len(written) != 1 or written[0].name != schema.arguments[0].name or not name.endswith("_"):
        return None
    namespace, _, inplace_name = name.partition("::")
    packet = getattr(getattr(torch.ops, namespace), inplace_name[:-1], None)
    functional = getattr(packet, overload or "default", None)
    if functional is None or functional._schema.is_mutable:
        return None
    has_same_arguments = [argument.name for argument in functional._schema.arguments] == [
        argument.name for argument in schema.arguments
    ]
    return functional if has_same_arguments else None


def _same_dtype(node: Node) -> bool:
    """Whether all tensor operands except a mask have the dtype of the result, so none is cast."""
    result = node.meta.get("val")
    if not isinstance(result, torch.Tensor):
        return False
    operands = node.all_input_nodes
    mask = traits.MASK.get(node.target.name())  # type: ignore[union-attr]
    if mask is not None:
        operands = [operand for operand in operands if operand is not node.args[mask]]
    values = [operand.meta.get("val") for operand in operands]
    return all(
        not isinstance(value, torch.Tensor) or value.dtype == result.dtype for value in values
    )


# cache of `_keeps_dtype` by overload and dtype of the written tensor
_DTYPE_KEPT: dict[tuple[Any, torch.dtype], bool] = {}


def _keeps_dtype(node: Node, overload: Any) -> bool:
    """Whether the result of the functional overload has the dtype of the written tensor.

    A comparison such as ``lt`` returns bool, but ``lt_`` casts to the dtype of the tensor.
    """
    dtype = node.meta["val"].dtype
    if (overload, dtype) not in _DTYPE_KEPT:
        _DTYPE_KEPT[overload, dtype] = _makes_bools(node, overload) == (dtype == torch.bool)
    return _DTYPE_KEPT[overload, dtype]


def _makes_bools(node: Node, overload: Any) -> bool:
    """Whether the functional overload returns bool for 0-d operands, as comparisons do.

    If it rejects 0-d operands, it is assumed to keep the dtype of the written tensor.
    """

    def scalar_operand(operand: Node) -> Any:
        value = operand.meta.get("val")
        if not isinstance(value, torch.Tensor):
            return value
        return torch.empty((), dtype=value.dtype, device="meta")

    args, kwargs = map_arg((node.args, node.kwargs), scalar_operand)
    try:
        result = overload(*args, **kwargs)
    except Exception:
        return bool(node.meta["val"].dtype == torch.bool)
    return isinstance(result, torch.Tensor) and result.dtype == torch.bool


def _is_fresh(node: Node) -> bool:
    """Whether the value of a node is a new tensor that shares memory with no other value."""
    if node.target is operator.getitem:
        source = node.args[0]
        return (
            isinstance(source, Node)
            and _is_read_only_call(source)
            and all(
                user is node or (user.target is node.target and user.args[1] != node.args[1])
                for user in source.users
            )
            and not any(_is_list(result) for result in source.target._schema.returns)  # type: ignore[union-attr]
        )
    return (
        isinstance(node.target, OpOverload)
        and not node.target._schema.is_mutable
        and len(node.target._schema.returns) == 1
        and _is_read_only_call(node)
    )


def _is_list(result: Any) -> bool:
    return isinstance(result.type, torch.ListType)


def _is_read_only_call(node: Node) -> bool:
    """Whether a node calls an overload for which `is_read_only` holds."""
    return isinstance(node.target, OpOverload) and is_read_only(node.target)


def is_read_only(target: Any) -> bool:
    """Whether an overload neither writes to its arguments nor returns an argument or a view."""
    if target._schema.is_mutable:
        return False
    if any(result.alias_info is not None for result in target._schema.returns):
        return False
    if target.name() in traits.UNMARKED_VIEW:
        return False
    # The schema of a composite operator does not state whether it returns its input (dropout in
    # eval mode does), so only operators with the trait are accepted.
    return target.name() in traits.RETURNS_NEW_STORAGE or not is_composite(target)


def find_elidable(
    graph_module: GraphModule, tables: ConverterTables, elidable_in: ElidableIn | None
) -> Mapping[Node, ElidableMutation]:
    """Return the unobservable writes of a graph, from the cache ``elidable_in`` if there is one."""
    if elidable_in is not None:
        return elidable_in(graph_module)
    return elidable_mutations(graph_module, tables.converters.__contains__)


def write_reason(node: Node, mutates: Mapping[str, str]) -> str | None:
    """Return why a node writes to an argument, or None. ``mutates``: see `ConverterTables`."""
    target = node.target
    if not isinstance(target, OpOverload):
        return None
    name = target.name()
    if target._schema.is_mutable:
        return None if name in traits.METADATA_ONLY else f"its schema is {target._schema}"
    flag = mutates.get(name)
    if (
        flag is not None
        and _argument_value(node, target._schema, flag) is True
        and _has_running_statistics(node)
    ):
        return f"{flag}=True makes it update its running statistics in place"
    return None


def _may_write(target: Any, mutates: Mapping[str, str]) -> bool:
    """Whether some call of a function writes to an argument."""
    if not isinstance(target, OpOverload):
        return target in AUGMENTED_ASSIGNMENTS
    return target._schema.is_mutable or target.name() in mutates


def _is_unobservable_assignment(node: Node, tables: ConverterTables) -> bool:
    """Whether ``x += 1`` or the like changes a number, or a new tensor without other users."""
    value = node_value(node)
    if value is not UNKNOWN and not is_tensor_like(value):
        return True
    written = node.args[0] if node.args else None
    if not isinstance(written, Node) or set(written.users) != {node}:
        return False
    return _makes_new_tensor(written, tables)


def _makes_new_tensor(node: Node, tables: ConverterTables) -> bool:
    """Whether a node in a graph of Python functions returns a tensor with memory of its own.

    All overloads that the call may resolve to, and that take a tensor first, must do so.
    """
    if node.op == "call_method":
        call = tables.methods.get(str(node.target))
    elif node.op != "call_function":
        return False
    elif isinstance(node.target, OpOverload):
        return is_read_only(node.target)
    elif node.target in AUGMENTED_ASSIGNMENTS:
        return _is_unobservable_assignment(node, tables)
    else:
        call = find_call_target(tables, node.target)
    if call is None:
        return False
    namespace, _, name = call.packet.partition("::")
    packet_name, _, overload = name.partition(".")
    packet = getattr(getattr(torch.ops, namespace), packet_name)
    for overload_name in [overload] if overload else packet.overloads():
        schema = getattr(packet, overload_name)._schema
        takes_tensor = bool(schema.arguments) and schema.arguments[0].type.kind() == "TensorType"
        if (
            takes_tensor
            and not schema.is_mutable
            and not is_read_only(getattr(packet, overload_name))
        ):
            return False
    return True


def first_write(
    graph_module: GraphModule,
    tables: ConverterTables,
    owner: Any = None,
    elidable_in: ElidableIn | None = None,
) -> tuple[Node, str] | None:
    """Return the first observable write of a graph or its subgraphs with its reason, or None.

    ``owner`` has the attributes that the graph reads (default: ``graph_module``). ``elidable_in``
    returns the unobservable writes of a graph from a cache.
    """
    attribute_owner = graph_module if owner is None else owner
    elidable: Mapping[Node, ElidableMutation] | None = None
    read_only: set[Any] = set()  # functions that never write to an argument
    for node in graph_module.graph.nodes:
        if node.op == "call_function":
            if node.target in read_only:
                continue
            if node.target in AUGMENTED_ASSIGNMENTS and not _is_unobservable_assignment(
                node, tables
            ):
                return node, "it may be an input, or other nodes may read it"
            reason = write_reason(node, tables.mutates)
            if reason is None:
                if not _may_write(node.target, tables.mutates):
                    read_only.add(node.target)
                continue
            if elidable is None:
                elidable = find_elidable(graph_module, tables, elidable_in)
            if node not in elidable:
                return node, reason
        elif node.op == "get_attr" or node.op == "call_module":
            subgraph = find_attribute(attribute_owner, str(node.target), None)
            if isinstance(subgraph, GraphModule) and not is_wrapped_subgraph(node):
                inner_write = first_write(subgraph, tables, elidable_in=elidable_in)
                if inner_write is not None:
                    return inner_write
    return None


def _has_running_statistics(node: Node) -> bool:
    """Whether a call passes running statistics; True for operators without such arguments."""
    schema: Any = node.target._schema  # type: ignore[union-attr]
    names = [argument.name for argument in schema.arguments if argument.name.startswith("running_")]
    return not names or any(_argument_value(node, schema, name) is not None for name in names)


def _argument_value(node: Node, schema: Any, name: str) -> Any:
    if name in node.kwargs:
        return node.kwargs[name]
    for position, argument in enumerate(schema.arguments):
        if argument.name == name:
            if position < len(node.args):
                return node.args[position]
            return argument.default_value if argument.has_default_value() else None
    return None
