"""Resolve a user's key for an operator to the names that the operator has in FX graphs.

A key is a name, an overload, packet or higher-order operator of torch, a torch function or method,
or a Python operator.
"""

from __future__ import annotations

import difflib
import operator
from functools import lru_cache
from typing import Any

import torch

from ortable.compat.torch import (
    CustomOpDef,
    HigherOrderOperator,
    OpOverload,
    OpOverloadPacket,
    TensorBase,
    custom_op_overload,
    find_builtin,
    qualified_op_name,
)
from ortable.errors import OptionError
from ortable.interpreter.calls import qualified_name
from ortable.interpreter.tables import generated_tables

_METHOD_PREFIXES = ("Tensor.", "torch.Tensor.")
_ROOT_MODULES = {"torch": torch, "operator": operator}


@lru_cache(maxsize=1)
def _exported_names() -> dict[str, str]:
    """Map operators of calls to the operators that torch.export records for these calls instead.

    For example, ``operator.and_`` is a call of ``aten::bitwise_and``, which torch.export records as
    ``aten::__and__``.
    """
    calls = generated_tables().callables.values()
    return {call.packet: call.exported_as for call in calls if call.exported_as is not None}


def operator_names(key: Any) -> tuple[str, ...]:
    """Return the names in graphs of the operator of ``key``: one, or two for Python operators.

    Raises OptionError, as `operator_name` does, and for an operator that writes in place.
    """
    name = operator_name(key)
    namespace, _, packet_and_overload = name.partition("::")
    packet = packet_and_overload.partition(".")[0]
    is_in_place = packet.endswith("_") and not packet.endswith("__")
    if namespace == "aten" and is_in_place and hasattr(torch.ops.aten, packet[:-1]):
        raise OptionError(_in_place_text(name, f"aten::{packet[:-1]}"))
    is_python = key.startswith("operator.") if isinstance(key, str) else _is_python(key)
    exported = _exported_names().get(name) if is_python else None
    return (name,) if exported is None else (name, exported)


def _is_python(key: Any) -> bool:
    """Whether ``key`` is a function of Python's ``operator`` module."""
    return getattr(key, "__module__", None) == "_operator"


def operator_name(key: Any) -> str:
    """Return the name of the operator of ``key``: ``aten::add.Tensor``, ``aten::add``, ``cond``.

    A name without an overload means every overload. Raises OptionError, with advice, if ``key`` is
    not an operator, or if torch does not reveal which operator a function calls.
    """
    if isinstance(key, str):
        return _resolve_text(key)
    if isinstance(key, (OpOverload, HigherOrderOperator)):
        return str(key.name())
    if isinstance(key, OpOverloadPacket):
        return qualified_op_name(key)
    if isinstance(key, CustomOpDef):
        return str(custom_op_overload(key).name())
    if type(key).__name__ == "method_descriptor" and key.__objclass__ is TensorBase:
        return _resolve_method(key.__name__)
    if callable(key) and not isinstance(key, type):
        return _resolve_callable(key)
    raise OptionError(
        "a converter is named after its operator: 'aten::relu', torch.ops.aten.relu.default, a "
        f"torch function such as torch.nn.functional.relu, or 'Tensor.relu'; not {key!r}"
    )


def _resolve_text(key: str) -> str:
    if "::" in key:
        namespace, _, packet_and_overload = key.partition("::")
        if not all(piece.isidentifier() for piece in (namespace, *packet_and_overload.split("."))):
            raise OptionError(_unknown_key_text(key))
        if namespace == "higher_order":
            return packet_and_overload
        name = key.removesuffix(".default")
        return _check_operator(name) if namespace in ("aten", "prims") else name
    for prefix in _METHOD_PREFIXES:
        if key.startswith(prefix):
            return _resolve_method(key.removeprefix(prefix))
    module_name, _, path = key.partition(".")
    function: Any = _ROOT_MODULES.get(module_name)
    for part in path.split("."):
        function = getattr(function, part, None)
    if not path or function is None:
        raise OptionError(_unknown_key_text(key))
    return operator_name(function)


def _unknown_key_text(key: str) -> str:
    return (
        f"'{key}' is not an operator: a converter is named after its operator, for example "
        "'aten::relu', 'mylib::op', 'torch.nn.functional.relu', 'Tensor.relu' or 'operator.add'"
    )


def _check_operator(name: str) -> str:
    """Return ``name`` if torch has the operator and overload; raise OptionError otherwise."""
    namespace, _, packet_and_overload = name.partition("::")
    packet_name, _, overload = packet_and_overload.partition(".")
    packet = getattr(getattr(torch.ops, namespace), packet_name, None)
    if packet is None:
        name_parts = [converter.partition("::") for converter in generated_tables().converters]
        names = [
            converted_name
            for converted_namespace, _, converted_name in name_parts
            if converted_namespace == namespace
        ]
        close = difflib.get_close_matches(packet_name, names, n=1)
        hint = f"; did you mean '{namespace}::{close[0]}'?" if close else ""
        raise OptionError(f"torch has no operator '{name}'{hint}")
    if overload and overload not in packet.overloads():
        raise OptionError(
            f"'{namespace}::{packet_name}' has no overload '{overload}', it has "
            f"{', '.join(packet.overloads())}"
        )
    return name


def _resolve_method(method: str) -> str:
    call = generated_tables().methods.get(method)
    _reject_ambiguous(f"torch.Tensor.{method}", call)
    if call is not None:
        return _call_packet(f"torch.Tensor.{method}", call)
    is_builtin = type(getattr(torch.Tensor, method, None)).__name__ == "method_descriptor"
    if method.endswith("_") and not method.endswith("__"):
        raise OptionError(
            _in_place_text(f"Tensor.{method}", _functional_name(method.removesuffix("_")))
        )
    if is_builtin and hasattr(torch.ops.aten, method):
        return f"aten::{method}"
    raise OptionError(_unknown_function_text(f"torch.Tensor.{method}", method))


def _functional_name(method: str) -> str:
    """Return the key that replaces the in-place ``Tensor.<method>_``; empty if unknown."""
    try:
        _resolve_method(method)
    except OptionError:
        return f"aten::{method}" if hasattr(torch.ops.aten, method) else ""
    return f"Tensor.{method}"


def _in_place_text(name: str, functional_name: str) -> str:
    advice = f"name '{functional_name}'" if functional_name else "name the operator in the graph"
    return f"'{name}' writes in place; graphs are converted without such writes: {advice}"


def _resolve_callable(function: Any) -> str:
    name = qualified_name(function)
    call = generated_tables().callables.get(name)
    _reject_ambiguous(name, call)
    if call is not None:
        return _call_packet(name, call)
    # torch's table of builtins, which TorchScript uses
    builtin = find_builtin(function)
    if builtin is not None and builtin.startswith("aten::"):
        return str(builtin)
    raise OptionError(_unknown_function_text(name, name.rpartition(".")[2]))


def _call_packet(name: str, call: Any) -> str:
    """Return the operator that a function calls; raise OptionError if it fixes an argument.

    ``name`` is the function, ``call`` its entry in the generated tables.
    """
    if call.fixed:
        raise OptionError(
            f"{name} is a call of {call.packet} with {call.fixed}; name the converter after "
            f"'{call.packet}'"
        )
    return str(call.packet)


def _reject_ambiguous(name: str, call: Any) -> None:
    """Raise OptionError for a function that calls one of several operators."""
    if call is not None and call.several:
        *leading, last = (f"'{operator}'" for operator in call.several)
        raise OptionError(
            f"{name} calls one of several operators, by its arguments: name {', '.join(leading)} or"
            f" {last}"
        )


def _unknown_function_text(name: str, short: str) -> str:
    """Explain why a function does not name an operator; suggest the operator of the same name."""
    packet = getattr(torch.ops.aten, short, None)
    if not isinstance(packet, OpOverloadPacket):
        return (
            f"torch does not say which operator {name} calls, if any: export the model and name "
            "the operator in its graph, for example 'aten::relu'"
        )
    schema = getattr(packet, packet.overloads()[0])._schema
    return (
        f"{name} is a function in Python, which may order or change arguments before it calls "
        f"operators; name the operator that the converter is for: 'aten::{short}', whose schema "
        f"is {schema}"
    )
