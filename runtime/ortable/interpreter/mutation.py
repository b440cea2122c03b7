"""In-place writes of an FX graph. ONNX has no such operators: a write that somebody can see makes
torch functionalise the graph before it is converted, which costs more than the whole conversion. A
write that nobody can see (``relu_`` of a tensor that the graph has just made and of which no view
exists) is converted as the functional operator."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import GraphModule, Node
from torch.fx.node import map_arg

from ortable.compat.torch import OpOverload, is_composite
from ortable.interpreter.calls import ASSIGNING, alias_of
from ortable.interpreter.control_flow import holds_writes
from ortable.interpreter.modules import find_attribute
from ortable.interpreter.results import UNKNOWN, is_tensor_like, node_value
from ortable.interpreter.tables import ConverterTables
from ortable_generated.aten import traits


@dataclass(frozen=True)
class ElidableMutation:
    """A write that is converted as ``overload``; ``aliases`` are the nodes that name the tensor."""

    overload: Any
    aliases: tuple[Node, ...]


ElidableIn = Callable[[GraphModule], Mapping[Node, ElidableMutation]]


def elidable_mutations(
    graph_module: GraphModule, has_converter: Callable[[str], bool]
) -> dict[Node, ElidableMutation]:
    """The writes of a graph that can be converted as the functional operator.

    The written tensor was made in the graph, was only read before, has the dtype of every operand,
    and the functional overload has a converter (``has_converter("aten::relu")``).
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
    found: dict[Node, ElidableMutation],
    order: dict[Node, int],
    has_converter: Callable[[str], bool],
) -> ElidableMutation | None:
    overload = _functional_overload(node.target)
    if overload is None or not has_converter(overload.name()):
        return None
    written = node.args[0] if node.args else None
    if not isinstance(written, Node) or not _same_dtype(node) or not _keeps_dtype(node, overload):
        return None
    aliases = (*found[written].aliases, written) if written in found else (written,)
    if not _is_fresh(aliases[0]):
        return None
    for alias in aliases:
        for user in alias.users:
            if user in order and user is not node and user not in found and not _only_reads(user):
                return None
    return ElidableMutation(overload, aliases)


def _functional_overload(target: Any) -> Any:
    """``aten.relu`` for ``aten.relu_``: same name and arguments, nothing written; None if torch has
    none, or if more than the first argument is written."""
    schema = target._schema
    name, overload = schema.name, schema.overload_name
    written = [a for a in schema.arguments if a.alias_info is not None and a.alias_info.is_write]
    if len(written) != 1 or written[0].name != schema.arguments[0].name or not name.endswith("_"):
        return None
    namespace, _, plain = name.partition("::")
    packet = getattr(getattr(torch.ops, namespace), plain[:-1], None)
    functional = getattr(packet, overload or "default", None)
    if functional is None or functional._schema.is_mutable:
        return None
    same = [a.name for a in functional._schema.arguments] == [a.name for a in schema.arguments]
    return functional if same else None


def _same_dtype(node: Node) -> bool:
    """Every tensor operand has the dtype of the result, so that no cast is due on the way back."""
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


_DTYPE_KEPT: dict[tuple[Any, torch.dtype], bool] = {}  # by overload and dtype of the written tensor


def _keeps_dtype(node: Node, overload: Any) -> bool:
    """Whether the functional operator gives the dtype of its operands: a comparison gives bools,
    which the write casts."""
    dtype = node.meta["val"].dtype
    if (overload, dtype) not in _DTYPE_KEPT:
        _DTYPE_KEPT[overload, dtype] = _makes_bools(node, overload) == (dtype == torch.bool)
    return _DTYPE_KEPT[overload, dtype]


def _makes_bools(node: Node, overload: Any) -> bool:
    """Whether the operator, of single numbers, gives a bool; operators that do not take these are
    no comparisons."""

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
    """``node`` makes one tensor whose memory nothing else shares, or takes one of several."""
    if node.target is operator.getitem:
        source = node.args[0]
        return (
            isinstance(source, Node)
            and _only_reads(source)
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
        and _only_reads(node)
    )


def _is_list(result: Any) -> bool:
    return isinstance(result.type, torch.ListType)


def _only_reads(node: Node) -> bool:
    """``node`` neither writes to its arguments nor returns one of them, or a view."""
    return isinstance(node.target, OpOverload) and only_reads(node.target)


def only_reads(target: Any) -> bool:
    """Whether an overload neither writes to its arguments nor returns one of them, or a view."""
    if target._schema.is_mutable:
        return False
    if any(result.alias_info is not None for result in target._schema.returns):
        return False
    if target.name() in traits.UNMARKED_VIEW:
        return False
    # Composite operators hide what they return (dropout in eval mode returns its input), so only
    # those known to make a new tensor count.
    return target.name() in traits.RETURNS_NEW_STORAGE or not is_composite(target)


def find_elidable(
    graph_module: GraphModule, tables: ConverterTables, elidable_in: ElidableIn | None
) -> Mapping[Node, ElidableMutation]:
    """The writes of a graph that nobody else sees: asked of ``elidable_in``, if there is one."""
    if elidable_in is not None:
        return elidable_in(graph_module)
    return elidable_mutations(graph_module, tables.converters.__contains__)


def write_reason(node: Node, mutates: Mapping[str, str]) -> str | None:
    """Why ``node`` writes to an argument (the schema, or the argument that says so); None when it
    does not."""
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
        and _has_running(node)
    ):
        return f"{flag}=True makes it update its running statistics in place"
    return None


def _may_write(target: Any, mutates: Mapping[str, str]) -> bool:
    """Whether a function writes to an argument of some call of it."""
    if not isinstance(target, OpOverload):
        return target in ASSIGNING
    return target._schema.is_mutable or target.name() in mutates


def _is_unseen(node: Node, tables: ConverterTables) -> bool:
    """Whether ``x += 1`` and the like write to a number, or to a tensor that the graph just made
    and that nobody else reads."""
    value = node_value(node)
    if value is not UNKNOWN and not is_tensor_like(value):
        return True
    written = node.args[0] if node.args else None
    if not isinstance(written, Node) or set(written.users) != {node}:
        return False
    return _is_new(written, tables)


def _is_new(node: Node, tables: ConverterTables) -> bool:
    """Whether a node of a graph of Python functions makes memory of its own."""
    if node.op == "call_method":
        call = tables.methods.get(str(node.target))
    elif node.op != "call_function":
        return False
    elif isinstance(node.target, OpOverload):
        return only_reads(node.target)
    elif node.target in ASSIGNING:
        return _is_unseen(node, tables)
    else:
        call = alias_of(tables, node.target)
    if call is None:
        return False
    namespace, _, name = call.packet.partition("::")
    packet_name, _, overload = name.partition(".")
    packet = getattr(getattr(torch.ops, namespace), packet_name)
    for overload_name in [overload] if overload else packet.overloads():
        schema = getattr(packet, overload_name)._schema
        of_tensors = bool(schema.arguments) and schema.arguments[0].type.kind() == "TensorType"
        if of_tensors and not schema.is_mutable and not only_reads(getattr(packet, overload_name)):
            return False
    return True


def first_write(
    graph_module: GraphModule,
    tables: ConverterTables,
    owner: Any = None,
    elidable_in: ElidableIn | None = None,
) -> tuple[Node, str] | None:
    """The first node of the graph, or of a graph inside it, that writes to an argument that
    somebody else can see, and why.

    ``owner`` holds the attributes that the graph reads, when that is not ``graph_module`` itself;
    ``elidable_in`` answers for the writes of a graph that nobody else sees, where they are known.
    """
    holder = graph_module if owner is None else owner
    elidable: Mapping[Node, ElidableMutation] | None = None
    reading: set[Any] = set()  # functions that write nothing, whatever their arguments
    for node in graph_module.graph.nodes:
        if node.op == "call_function":
            if node.target in reading:
                continue
            if node.target in ASSIGNING and not _is_unseen(node, tables):
                return node, "it may be an input, or be read by others"
            why = write_reason(node, tables.mutates)
            if why is None:
                if not _may_write(node.target, tables.mutates):
                    reading.add(node.target)
                continue
            if elidable is None:
                elidable = find_elidable(graph_module, tables, elidable_in)
            if node not in elidable:
                return node, why
        elif node.op == "get_attr" or node.op == "call_module":
            inner = find_attribute(holder, str(node.target), None)
            if isinstance(inner, GraphModule) and not holds_writes(node):
                inner_write = first_write(inner, tables, elidable_in=elidable_in)
                if inner_write is not None:
                    return inner_write
    return None


def _has_running(node: Node) -> bool:
    """Whether a normalisation was given running statistics that it would update."""
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
