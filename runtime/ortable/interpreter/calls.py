"""Which converter a target of FX stands for: ATen overloads by name, torch functions, Python
operators and methods through the generated alias tables, where torch itself chooses the overload.
Each target is resolved once per interpreter."""

from __future__ import annotations

import builtins
import contextlib
import math
import operator
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import torch
from torch.fx import Node

from ortable.compat.torch import (
    HigherOrderOperator,
    OpOverload,
    OpOverloadPacket,
    qualified_op_name,
    resolve_packet,
)
from ortable.interpreter.control_flow import written_overload
from ortable.ir import Graph
from ortable.ir.context import Converter
from ortable.prelude.complex_value import ComplexValue

from .. import dims, dtypes
from ..errors import UnsupportedCase
from .tables import ConverterTables

# Python's `x += y` and the like, as graphs of Python functions hold them.
ASSIGNING = frozenset(
    getattr(operator, f"i{name}")
    for name in (
        *("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul"),
        *("and", "or", "xor", "lshift", "rshift"),
    )
)

_PUBLIC_MODULES: tuple[tuple[str, Any], ...] = (
    ("operator", operator),
    ("torch.nn.functional", torch.nn.functional),
    ("torch", torch),
    ("torch.special", torch.special),
    ("torch.linalg", torch.linalg),
    ("torch.fft", torch.fft),
    ("math", math),
    ("builtins", builtins),
)

# What Python calls an argument that the schema calls otherwise.
_SPELLINGS = {"input": "self", "axis": "dim", "keepdims": "keepdim", "training": "train"}


def qualified_name(target: Any) -> str:
    """The public name of a Python callable: ``operator.add``, ``torch.nn.functional.relu``,
    ``torch.add``."""
    name = getattr(target, "__name__", None)
    if name is not None:
        for home, module in _PUBLIC_MODULES:
            # torch.special.erfcx calls itself special_erfcx
            for public in (name, name.removeprefix(home.rpartition(".")[2] + "_")):
                if getattr(module, public, None) is target:
                    return f"{home}.{public}"
    module_name = getattr(target, "__module__", None) or "?"
    return f"{module_name}.{getattr(target, '__qualname__', None) or name or repr(target)}"


def operator_key(node: Node) -> str:
    """The key under which the target of ``node`` is looked up; that of the operator which a call
    that writes stands for."""
    target = node.target
    if isinstance(target, OpOverload):
        return target.name()
    if isinstance(target, HigherOrderOperator):
        return (written_overload(node) or target).name()
    if isinstance(target, OpOverloadPacket):
        return qualified_op_name(target)
    return target if isinstance(target, str) else qualified_name(target)


def converter_name(tables: ConverterTables, node: Node) -> str:
    """The name under which a Dispatcher takes a converter of what ``node`` calls; empty where no
    converter would be asked for: the function or method stands for no operator that is known."""
    key = operator_key(node)
    if "::" in key or node.op not in ("call_function", "call_method"):
        return key if "::" in key else ""
    if isinstance(node.target, HigherOrderOperator):
        return f"higher_order::{key}"
    is_method = node.op == "call_method"
    call = tables.methods.get(key) if is_method else alias_of(tables, node.target)
    return "" if call is None else str(call.packet)


class PacketCall(NamedTuple):
    """A call of an operator without an overload, in the form of the generated call targets."""

    packet: str
    fixed: dict[str, Any]
    pack: str | None
    python_only: dict[str, Any] = {}  # noqa: RUF012 (a NamedTuple's default, never written)


def check_dtype_unchanged(graph: Graph, written: Any, returned: Any) -> None:
    """Raise UnsupportedCase when ``x += y`` would give ``x`` another dtype, which torch keeps."""
    if isinstance(written, str) and isinstance(returned, str):
        kinds = [dtypes.name(graph.get_type(name)) for name in (written, returned)]
        if kinds[0] != kinds[1]:
            raise UnsupportedCase(f"an assignment of {kinds[1]} to a tensor of {kinds[0]}")


def alias_of(tables: ConverterTables, target: Any) -> Any:
    """The call target of a Python function, or of an operator without an overload; None if
    unknown."""
    if isinstance(target, OpOverloadPacket):
        return PacketCall(qualified_op_name(target), {}, None)
    return tables.callables.get(qualified_name(target))


def resolve_overload(
    graph: Graph, node: Node, call: Any, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[Any, list[Any], dict[str, Any]]:
    """The ATen overload that torch takes for a Python call with these converted arguments of
    ``node``, and its own arguments.

    Results stand for tensors of their dtype and rank, symbolic dimensions for integers.
    Raises UnsupportedCase when no overload fits.
    """
    namespace, _, rest = call.packet.partition("::")
    packet_name, _, overload = rest.partition(".")
    packet = getattr(getattr(torch.ops, namespace), packet_name)
    # torch.dtype is a number here, and no size: x.view(torch.int32)
    is_dtype = any(map(_is_dtype, node.args))
    packed = list(args) if is_dtype else pack_arguments(call.pack, args, packet)
    schema_kwargs = _without_python_only(call, kwargs)
    named = {**call.fixed, **_schema_names(schema_kwargs, packet)}
    if not overload:
        overload, packed, named = _resolve_arguments(graph, packet, packed, named)
    return getattr(packet, overload or "default"), packed, named


def _is_dtype(value: Any) -> bool:
    """Whether an argument of a node is a dtype, or that of a tensor."""
    if isinstance(value, Node):
        return value.target is getattr and value.args[1:] == ("dtype",)
    return isinstance(value, torch.dtype)


def _resolve_arguments(
    graph: Graph, packet: Any, packed: list[Any], named: dict[str, Any]
) -> tuple[str, list[Any], dict[str, Any]]:
    """The name of the overload that torch chooses, and its arguments: as they are given, or with
    lists for the numbers that Python takes for them."""
    name = qualified_op_name(packet)

    def resolve_values(values: Sequence[Any], words: Mapping[str, Any]) -> str:
        stand_ins = {key: stand_in(graph, value) for key, value in words.items()}
        return str(
            resolve_packet(
                name, *(stand_in(graph, positional) for positional in values), **stand_ins
            )
        )

    try:
        overload = resolve_values(packed, named)
    except RuntimeError as error:
        for values, words in _with_lists(packet, packed, named):
            with contextlib.suppress(RuntimeError):
                return resolve_values(values, words), values, words
        raise UnsupportedCase(
            f"torch has no overload of {name} for these arguments, which Python's function may "
            "rewrite before it calls one: write them as the operator takes them, or give example "
            "inputs (args)",
            details=str(error),
        ) from error
    axes = _numbers_as_lists(getattr(packet, overload or "default"), packed)
    if axes is not None:
        with contextlib.suppress(RuntimeError):  # no other overload: the number is a flag
            overload = resolve_values(axes, named)
    return overload, packed, named


def _with_lists(
    packet: Any, values: Sequence[Any], words: Mapping[str, Any]
) -> Iterator[tuple[list[Any], dict[str, Any]]]:
    """The arguments with lists where an overload has them and Python takes a number, or None, as
    in ``conv2d(x, w, None, 1)``: those of one overload after the other."""
    for overload in packet.overloads():
        arguments = getattr(packet, overload)._schema.arguments
        by_name = {argument.name: argument for argument in arguments}
        if len(values) <= len(arguments) and by_name.keys() >= words.keys():
            yield (
                [_as_list(*pair) for pair in zip(arguments, values, strict=False)],
                {name: _as_list(by_name[name], value) for name, value in words.items()},
            )


def _as_list(argument: Any, value: Any) -> Any:
    """A number, or None, as the list that an argument of a schema is; other values as they are."""
    kind = argument.type
    if kind.kind() == "OptionalType":
        kind = kind.getElementType()
    if kind.kind() != "ListType":
        return value
    if value is None and argument.has_default_value():
        return argument.default_value
    is_number = value.__class__ is int or isinstance(value, dims.SymDim)
    return [value] * argument.N if is_number and argument.N else value


def _numbers_as_lists(overload: Any, values: Sequence[Any]) -> list[Any] | None:
    """Positional values with each int, or None, that ``overload`` takes for a flag as a list; None
    when there is none. Python takes neither for a bool: ``x.std(0)`` is that of dimension 0, which
    the schemas alone would read as ``unbiased=False``."""
    flags = [
        index
        for index, (value, argument) in enumerate(
            zip(values, overload._schema.arguments, strict=False)
        )
        if (value is None or value.__class__ is int) and argument.type.kind() == "BoolType"
    ]
    if not flags:
        return None
    lists = [[] if value is None else [value] for value in values]
    return [lists[index] if index in flags else value for index, value in enumerate(values)]


def _without_python_only(call: Any, kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Keyword arguments without those that ATen lacks and that change nothing.

    Raises UnsupportedCase when one of them has a value that would change the result.
    """
    accepted = getattr(call, "python_only", {})
    for name, value in kwargs.items():
        allowed = accepted.get(name, "any")
        if allowed != "any" and value != allowed:
            raise UnsupportedCase(f"{call.packet} has no argument '{name}', which is {value} here")
    return {name: value for name, value in kwargs.items() if name not in accepted}


def _schema_names(kwargs: Mapping[str, Any], packet: Any) -> dict[str, Any]:
    """Keyword arguments under the names of the schema: Python's ``input`` is ``self`` there,
    numpy's ``axis`` is ``dim``; ``inplace=False`` says nothing.

    An argument that no overload has is kept, so that torch refuses it by name.
    """
    arguments = [
        argument
        for overload in packet.overloads()
        for argument in getattr(packet, overload)._schema.arguments
    ]
    schema_names = {argument.name for argument in arguments}
    # Python writes None for a list that it may leave out: F.max_pool2d(x, 2, stride=None)
    defaulted = {
        argument.name
        for argument in arguments
        if argument.has_default_value() and argument.type.kind() == "ListType"
    }
    renamed = {}
    for name, value in kwargs.items():
        spelled = _SPELLINGS.get(name, name) if name not in schema_names else name
        if spelled not in schema_names and name == "inplace" and value is False:
            continue
        if spelled not in schema_names and name == "inplace":
            raise UnsupportedCase(
                f"inplace={value} writes into the input of the call, which others may read: leave "
                "it out, or give example inputs (args)"
            )
        if value is None and spelled in defaulted:
            continue
        renamed[spelled if spelled in schema_names else name] = value
    return renamed


def pack_arguments(pack: str | None, args: Sequence[Any], packet: Any) -> list[Any]:
    """Python varargs (``x.view(2, 3)``) gathered into the list argument that ``pack`` names."""
    if not pack:
        return list(args)
    names = [argument.name for argument in getattr(packet, packet.overloads()[0])._schema.arguments]
    position = names.index(pack)
    rest = args[position:]
    if not rest or (len(rest) == 1 and isinstance(rest[0], (list, tuple))):
        return list(args)
    return [*args[:position], list(rest)]


def stand_in(graph: Graph, value: Any) -> Any:
    """A Python value of the kind that torch sees in place of a converted argument."""
    if isinstance(value, str):
        info = graph.values.get(value)
        if info is None:
            return value
        rank = info.rank if info.rank is not None else len(info.shape or ())
        dtype = dtypes.to_torch(info.dtype) if info.dtype else torch.float32
        return torch.empty((0,) * rank, dtype=dtype, device="meta")
    if isinstance(value, ComplexValue):
        return stand_in(graph, value.real).to(dtypes.to_torch(value.dtype))
    if isinstance(value, dims.SymDim):
        return 1
    if isinstance(value, list):
        return [stand_in(graph, item) for item in value]
    if isinstance(value, tuple):
        return tuple(stand_in(graph, item) for item in value)
    return value


# Modules of Python functions that are simply called when no argument is a result.
PYTHON = ("operator.", "builtins.", "math.")

# Properties and methods that ask for a size, which the graph knows: nothing is emitted.
SIZE_PROPERTIES = frozenset({"shape", "ndim", "dtype"})
SIZE_METHODS = frozenset({"size", "dim", "ndimension", "numel"})


def known_size(graph: Graph, name: str, args: Sequence[Any]) -> Any:
    """``x.shape``, ``x.ndim``, ``x.dtype``, ``x.size()``, ``x.size(1)``, ``x.dim()``,
    ``x.numel()``.

    Raises BuilderError when the graph does not know the shape or type.
    """
    result = args[0]
    if name == "dtype":
        return result.dtype if isinstance(result, ComplexValue) else graph.get_type(result)
    if isinstance(result, ComplexValue):
        result = result.real
    if name in ("ndim", "dim", "ndimension"):
        return graph.get_rank(result)
    shape = graph.get_shape(result)
    if name == "numel":
        return dims.product_of(shape)
    return shape[args[1]] if len(args) > 1 and name == "size" else shape


class Dispatcher(Protocol):
    """Chooses converters in the place of the tables."""

    def find(self, name: str, target: Any, native: Converter | None) -> Converter | None:
        """The converter of overload ``name``; ``native`` is the tables'. None: there is none."""
        ...


def find_converter(
    tables: ConverterTables, name: str, target: Any, dispatcher: Dispatcher | None
) -> Converter | None:
    """The converter of an overload or of a higher-order operator: a dispatcher, if given, sees the
    generated one and may return another."""
    native = tables.converters.get(name) or tables.hops.get(name)
    return dispatcher.find(name, target, native) if dispatcher is not None else native
