"""Find the converter for the target of an FX node.

Overloads are looked up by name. For torch functions, Python operators and methods, the alias tables
(`ConverterTables.callables` and `methods`) contain the operator, and torch resolves the overload.
"""

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

# Functions for augmented assignments such as `x += y` in graphs of Python functions.
AUGMENTED_ASSIGNMENTS = frozenset(
    getattr(operator, f"i{name}")
    for name in (
        *("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul"),
        *("and", "or", "xor", "lshift", "rshift"),
    )
)

# Modules by the prefix of public names; a function of several modules has the first prefix.
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

# Python's name of an argument -> its name in the schema.
_SCHEMA_NAMES = {"input": "self", "axis": "dim", "keepdims": "keepdim", "training": "train"}


def qualified_name(target: Any) -> str:
    """Return the public name of a callable: ``operator.add``, ``torch.nn.functional.relu``."""
    name = getattr(target, "__name__", None)
    if name is not None:
        for module_prefix, module in _PUBLIC_MODULES:
            # the __name__ of torch.special.erfcx is special_erfcx
            for public_name in (name, name.removeprefix(module_prefix.rpartition(".")[2] + "_")):
                if getattr(module, public_name, None) is target:
                    return f"{module_prefix}.{public_name}"
    module_name = getattr(target, "__module__", None) or "?"
    return f"{module_name}.{getattr(target, '__qualname__', None) or name or repr(target)}"


def operator_key(node: Node) -> str:
    """Return the key of a node's target in the tables, such as ``aten::add.Tensor``.

    For a functionalized call, it is the key of the operator that the call wraps.
    """
    target = node.target
    if isinstance(target, OpOverload):
        return target.name()
    if isinstance(target, HigherOrderOperator):
        return (written_overload(node) or target).name()
    if isinstance(target, OpOverloadPacket):
        return qualified_op_name(target)
    return target if isinstance(target, str) else qualified_name(target)


def converter_name(tables: ConverterTables, node: Node) -> str:
    """Return the name under which a Dispatcher registers a converter for the target of a node.

    The name is empty if the interpreter never looks for a converter of the target.
    """
    key = operator_key(node)
    if "::" in key or node.op not in ("call_function", "call_method"):
        return key if "::" in key else ""
    if isinstance(node.target, HigherOrderOperator):
        return f"higher_order::{key}"
    is_method = node.op == "call_method"
    call = tables.methods.get(key) if is_method else find_call_target(tables, node.target)
    return "" if call is None else str(call.packet)


class PacketCall(NamedTuple):
    """Call target of an operator without an overload; fields as in the generated `CallTarget`."""

    packet: str
    fixed: dict[str, Any]
    pack: str | None
    python_only: dict[str, Any] = {}  # noqa: RUF012 (a default that is never changed)


def check_dtype_unchanged(graph: Graph, written: Any, returned: Any) -> None:
    """Raise UnsupportedCase if the result of ``x += y`` has another dtype than ``x`` (written)."""
    if isinstance(written, str) and isinstance(returned, str):
        dtype_names = [dtypes.name(graph.get_type(name)) for name in (written, returned)]
        if dtype_names[0] != dtype_names[1]:
            raise UnsupportedCase(
                f"an assignment of {dtype_names[1]} to a tensor of {dtype_names[0]}"
            )


def find_call_target(tables: ConverterTables, target: Any) -> Any:
    """Return the call target of a Python function or an ``OpOverloadPacket``, or None."""
    if isinstance(target, OpOverloadPacket):
        return PacketCall(qualified_op_name(target), {}, None)
    return tables.callables.get(qualified_name(target))


def resolve_overload(
    graph: Graph, node: Node, call: Any, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[Any, list[Any], dict[str, Any]]:
    """Resolve the ATen overload that torch calls for a Python call; return it with its arguments.

    ``call`` is the call target of the function, ``args`` and ``kwargs`` are converted arguments.
    Torch resolves the overload with stand-ins for them (see `make_stand_in`). Raises
    UnsupportedCase if torch has no overload for the arguments.
    """
    namespace, _, qualified = call.packet.partition("::")
    packet_name, _, overload = qualified.partition(".")
    packet = getattr(getattr(torch.ops, namespace), packet_name)
    # converted dtypes are numbers, which must not be packed as sizes: x.view(torch.int32)
    has_dtype = any(map(_is_dtype, node.args))
    call_args = list(args) if has_dtype else pack_arguments(call.pack, args, packet)
    schema_kwargs = _without_python_only(call, kwargs)
    call_kwargs = {**call.fixed, **_rename_to_schema(schema_kwargs, packet)}
    if not overload:
        overload, call_args, call_kwargs = _resolve_arguments(graph, packet, call_args, call_kwargs)
    return getattr(packet, overload or "default"), call_args, call_kwargs


def _is_dtype(value: Any) -> bool:
    """Whether an argument of a node is a dtype or ``x.dtype``."""
    if isinstance(value, Node):
        return value.target is getattr and value.args[1:] == ("dtype",)
    return isinstance(value, torch.dtype)


def _resolve_arguments(
    graph: Graph, packet: Any, args: list[Any], kwargs: dict[str, Any]
) -> tuple[str, list[Any], dict[str, Any]]:
    """Return the name of the overload that torch chooses, and its arguments.

    If torch rejects the arguments, numbers that Python functions accept for lists become lists.
    """
    name = qualified_op_name(packet)

    def resolve_values(values: Sequence[Any], keywords: Mapping[str, Any]) -> str:
        stand_ins = {key: make_stand_in(graph, value) for key, value in keywords.items()}
        return str(
            resolve_packet(
                name, *(make_stand_in(graph, positional) for positional in values), **stand_ins
            )
        )

    try:
        overload = resolve_values(args, kwargs)
    except RuntimeError as error:
        for values, keywords in _with_lists(packet, args, kwargs):
            with contextlib.suppress(RuntimeError):
                return resolve_values(values, keywords), values, keywords
        raise UnsupportedCase(
            f"torch has no overload of {name} for these arguments, which the Python function may "
            "convert before it calls the operator: pass arguments of the operator's types, or give "
            "example inputs (args)",
            details=str(error),
        ) from error
    args_with_lists = _numbers_as_lists(getattr(packet, overload or "default"), args)
    if args_with_lists is not None:
        with contextlib.suppress(RuntimeError):  # without such an overload, 0 is the bool
            overload = resolve_values(args_with_lists, kwargs)
    return overload, args, kwargs


def _with_lists(
    packet: Any, values: Sequence[Any], keywords: Mapping[str, Any]
) -> Iterator[tuple[list[Any], dict[str, Any]]]:
    """Yield for each overload the arguments, with numbers and None converted to its list types.

    For example, ``conv2d(x, w, None, 1)`` gives ``[x, w, None, [1, 1]]``.
    """
    for overload in packet.overloads():
        arguments = getattr(packet, overload)._schema.arguments
        by_name = {argument.name: argument for argument in arguments}
        if len(values) <= len(arguments) and by_name.keys() >= keywords.keys():
            yield (
                [_as_list(*pair) for pair in zip(arguments, values, strict=False)],
                {name: _as_list(by_name[name], value) for name, value in keywords.items()},
            )


def _as_list(argument: Any, value: Any) -> Any:
    """Return a number as a list, and None as the default, if the schema's argument is a list."""
    argument_type = argument.type
    if argument_type.kind() == "OptionalType":
        argument_type = argument_type.getElementType()
    if argument_type.kind() != "ListType":
        return value
    if value is None and argument.has_default_value():
        return argument.default_value
    is_number = value.__class__ is int or isinstance(value, dims.SymDim)
    return [value] * argument.N if is_number and argument.N else value


def _numbers_as_lists(overload: Any, values: Sequence[Any]) -> list[Any] | None:
    """Convert ints and None to lists if ``overload`` has bool parameters for them.

    Python functions do not accept ints as bools: ``x.std(0)`` reduces dimension 0, but resolution
    by schemas alone gives ``unbiased=False``. Returns None if no value is converted.
    """
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
    """Remove keyword arguments that ATen lacks; raise UnsupportedCase if one has an effect."""
    accepted = getattr(call, "python_only", {})
    for name, value in kwargs.items():
        allowed = accepted.get(name, "any")
        if allowed != "any" and value != allowed:
            raise UnsupportedCase(f"{call.packet} has no argument '{name}', which is {value} here")
    return {name: value for name, value in kwargs.items() if name not in accepted}


def _rename_to_schema(kwargs: Mapping[str, Any], packet: Any) -> dict[str, Any]:
    """Rename keyword arguments to the schema's names: ``input`` to ``self``, ``axis`` to ``dim``.

    ``inplace=False``, and None for a list with a default, are removed. Other arguments that no
    overload has stay, so that torch rejects them; ``inplace=True`` raises UnsupportedCase.
    """
    arguments = [
        argument
        for overload in packet.overloads()
        for argument in getattr(packet, overload)._schema.arguments
    ]
    schema_names = {argument.name for argument in arguments}
    # Python functions accept None for a list with a default: F.max_pool2d(x, 2, stride=None)
    defaulted = {
        argument.name
        for argument in arguments
        if argument.has_default_value() and argument.type.kind() == "ListType"
    }
    renamed = {}
    for name, value in kwargs.items():
        schema_name = _SCHEMA_NAMES.get(name, name) if name not in schema_names else name
        if schema_name not in schema_names and name == "inplace" and value is False:
            continue
        if schema_name not in schema_names and name == "inplace":
            raise UnsupportedCase(
                f"inplace={value} writes into the input of the call, which other operators may "
                "read: remove it, or give example inputs (args)"
            )
        if value is None and schema_name in defaulted:
            continue
        renamed[schema_name if schema_name in schema_names else name] = value
    return renamed


def pack_arguments(pack: str | None, args: Sequence[Any], packet: Any) -> list[Any]:
    """Pack variadic arguments (``x.view(2, 3)``) into the list argument that ``pack`` names."""
    if not pack:
        return list(args)
    names = [argument.name for argument in getattr(packet, packet.overloads()[0])._schema.arguments]
    position = names.index(pack)
    variadic = args[position:]
    if not variadic or (len(variadic) == 1 and isinstance(variadic[0], (list, tuple))):
        return list(args)
    return [*args[:position], list(variadic)]


def make_stand_in(graph: Graph, value: Any) -> Any:
    """Return the value that represents a converted argument when torch resolves overloads.

    It is an empty meta tensor of the same dtype and rank for a result, and 1 for a symbolic size.
    """
    if isinstance(value, str):
        info = graph.values.get(value)
        if info is None:
            return value
        rank = info.rank if info.rank is not None else len(info.shape or ())
        dtype = dtypes.to_torch(info.dtype) if info.dtype else torch.float32
        return torch.empty((0,) * rank, dtype=dtype, device="meta")
    if isinstance(value, ComplexValue):
        return make_stand_in(graph, value.real).to(dtypes.to_torch(value.dtype))
    if isinstance(value, dims.SymDim):
        return 1
    if isinstance(value, list):
        return [make_stand_in(graph, item) for item in value]
    if isinstance(value, tuple):
        return tuple(make_stand_in(graph, item) for item in value)
    return value


# Prefixes of Python functions that the interpreter evaluates if no argument is a result.
PYTHON_PREFIXES = ("operator.", "builtins.", "math.")

# Properties and methods that the interpreter evaluates from known types and shapes, without nodes.
SIZE_PROPERTIES = frozenset({"shape", "ndim", "dtype"})
SIZE_METHODS = frozenset({"size", "dim", "ndimension", "numel"})


def known_size(graph: Graph, name: str, args: Sequence[Any]) -> Any:
    """Evaluate a property or method of a tensor, such as ``x.shape`` or ``x.size(1)``."""
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
    """Interface of objects that choose the converters of operators."""

    def find(self, name: str, target: Any, native: Converter | None) -> Converter | None:
        """Return the converter of overload ``name``, or None.

        Args:
            name: name of the overload.
            target: the overload or higher-order operator.
            native: converter of the tables, or None.
        """
        ...


def find_converter(
    tables: ConverterTables, name: str, target: Any, dispatcher: Dispatcher | None
) -> Converter | None:
    """Return the converter of an operator from the dispatcher, if there is one, or the tables."""
    native = tables.converters.get(name) or tables.hops.get(name)
    return dispatcher.find(name, target, native) if dispatcher is not None else native


def arguments_by_name(node: Node) -> dict[str, Any]:
    """Return the arguments of a call of an overload by name, without those that are left out."""
    target: Any = node.target
    names = [argument.name for argument in target._schema.arguments]
    return {**dict(zip(names, node.args, strict=False)), **node.kwargs}
