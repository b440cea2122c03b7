"""Which operators a user means: names, overloads, packets and higher-order operators of torch,
torch functions, methods and Python operators, as the names under which FX nodes are looked up.
In comes what a user wrote, out goes a name. Called by dispatcher.py."""

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
    find_builtin,
    op_of_custom,
    qualified_op_name,
)
from ortable.errors import OptionError
from ortable.interpreter.calls import qualified_name
from ortable.interpreter.tables import generated_tables

_METHOD = ("Tensor.", "torch.Tensor.")
_HOME = {"torch": torch, "operator": operator}


@lru_cache(maxsize=1)
def _exported_names() -> dict[str, str]:
    """Operators of Python whose call on tensors stands in an exported graph under another name than
    the table's, which is for graphs of torch functions."""
    calls = generated_tables().callables.values()
    return {call.packet: call.exported_as for call in calls if call.exported_as is not None}


def operator_names(key: Any) -> tuple[str, ...]:
    """The names under which the operator of ``key`` stands in a graph: one, or two for operators of
    Python such as ``operator.and_``.

    Raises OptionError, as `operator_name` does, and for an operator that writes in place.
    """
    name = operator_name(key)
    namespace, _, rest = name.partition("::")
    packet = rest.partition(".")[0]
    written = packet.endswith("_") and not packet.endswith("__")
    if namespace == "aten" and written and hasattr(torch.ops.aten, packet[:-1]):
        raise OptionError(_writes(name, f"aten::{packet[:-1]}"))
    is_python = key.startswith("operator.") if isinstance(key, str) else _is_python(key)
    exported = _exported_names().get(name) if is_python else None
    return (name,) if exported is None else (name, exported)


def _is_python(key: Any) -> bool:
    return getattr(key, "__module__", None) == "_operator"


def operator_name(key: Any) -> str:
    """The name of the operator that ``key`` stands for: ``aten::add.Tensor``, ``aten::add`` (every
    overload), ``cond``.

    Raises OptionError, with what to write instead, when it is no operator, or when torch does not
    say which operator a function calls.
    """
    if isinstance(key, str):
        return _of_text(key)
    if isinstance(key, (OpOverload, HigherOrderOperator)):
        return str(key.name())
    if isinstance(key, OpOverloadPacket):
        return qualified_op_name(key)
    if isinstance(key, CustomOpDef):
        return str(op_of_custom(key).name())
    if type(key).__name__ == "method_descriptor" and key.__objclass__ is TensorBase:
        return _of_method(key.__name__)
    if callable(key) and not isinstance(key, type):
        return _of_callable(key)
    raise OptionError(
        "a converter is named after its operator: 'aten::relu', torch.ops.aten.relu.default, a "
        f"torch function such as torch.nn.functional.relu, or 'Tensor.relu'; not {key!r}"
    )


def _of_text(key: str) -> str:
    if "::" in key:
        namespace, _, rest = key.partition("::")
        if not all(each.isidentifier() for each in (namespace, *rest.split("."))):
            raise OptionError(_no_operator(key))
        if namespace == "higher_order":
            return rest
        plain = key.removesuffix(".default")
        return _checked(plain) if namespace in ("aten", "prims") else plain
    for prefix in _METHOD:
        if key.startswith(prefix):
            return _of_method(key.removeprefix(prefix))
    home, _, path = key.partition(".")
    found: Any = _HOME.get(home)
    for part in path.split("."):
        found = getattr(found, part, None)
    if not path or found is None:
        raise OptionError(_no_operator(key))
    return operator_name(found)


def _no_operator(key: str) -> str:
    return (
        f"'{key}' is no operator: a converter is named after its operator, for example "
        "'aten::relu', 'mylib::op', 'torch.nn.functional.relu', 'Tensor.relu' or 'operator.add'"
    )


def _checked(name: str) -> str:
    """``name`` when torch has the operator and overload; OptionError with the closest otherwise."""
    namespace, _, rest = name.partition("::")
    packet_name, _, overload = rest.partition(".")
    packet = getattr(getattr(torch.ops, namespace), packet_name, None)
    if packet is None:
        keys = [n.partition("::") for n in generated_tables().converters]
        known = [rest for home, _, rest in keys if home == namespace]
        close = difflib.get_close_matches(packet_name, known, n=1)
        hint = f"; did you mean '{namespace}::{close[0]}'?" if close else ""
        raise OptionError(f"torch has no operator '{name}'{hint}")
    if overload and overload not in packet.overloads():
        raise OptionError(
            f"'{namespace}::{packet_name}' has no overload '{overload}', it has "
            f"{', '.join(packet.overloads())}"
        )
    return name


def _of_method(method: str) -> str:
    call = generated_tables().methods.get(method)
    _refuse_several(f"torch.Tensor.{method}", call)
    if call is not None:
        return _packet(f"torch.Tensor.{method}", call)
    builtin = type(getattr(torch.Tensor, method, None)).__name__ == "method_descriptor"
    if method.endswith("_") and not method.endswith("__"):
        raise OptionError(_writes(f"Tensor.{method}", _of_plain_method(method.removesuffix("_"))))
    if builtin and hasattr(torch.ops.aten, method):
        return f"aten::{method}"
    raise OptionError(_unknown(f"torch.Tensor.{method}", method))


def _of_plain_method(method: str) -> str:
    """What to name in the place of the method that writes; empty where no operator is known."""
    try:
        _of_method(method)
    except OptionError:
        return f"aten::{method}" if hasattr(torch.ops.aten, method) else ""
    return f"Tensor.{method}"


def _writes(name: str, instead: str) -> str:
    what = f"name '{instead}'" if instead else "name the operator that stands there"
    return f"'{name}' writes in place; graphs are converted without such writes: {what}"


def _of_callable(function: Any) -> str:
    name = qualified_name(function)
    call = generated_tables().callables.get(name)
    _refuse_several(name, call)
    if call is not None:
        return _packet(name, call)
    # torch's own table, which TorchScript reads
    builtin = find_builtin(function)
    if builtin is not None and builtin.startswith("aten::"):
        return str(builtin)
    raise OptionError(_unknown(name, name.rpartition(".")[2]))


def _packet(name: str, call: Any) -> str:
    """The operator of a call; OptionError for one that fixes an argument of it."""
    if call.fixed:
        raise OptionError(
            f"{name} is a call of {call.packet} with {call.fixed}; name the converter after "
            f"'{call.packet}'"
        )
    return str(call.packet)


def _refuse_several(name: str, call: Any) -> None:
    """Raise OptionError for a function of which the table names the usual operator only."""
    if call is not None and call.several:
        *first, last = (f"'{operator}'" for operator in call.several)
        raise OptionError(
            f"{name} calls one of several operators, by its arguments: name {', '.join(first)} or"
            f" {last}"
        )


def _unknown(name: str, short: str) -> str:
    """Why a function cannot stand for an operator, and the operator of the same name if torch has
    one."""
    packet = getattr(torch.ops.aten, short, None)
    if not isinstance(packet, OpOverloadPacket):
        return (
            f"torch does not say which operator {name} calls, if it is one: export the model and "
            "name the operator that stands in the graph, for example 'aten::relu'"
        )
    schema = getattr(packet, packet.overloads()[0])._schema
    return (
        f"{name} is a function in Python, which may order or change arguments before it calls "
        f"operators; name the one that the converter is for: 'aten::{short}', whose schema is "
        f"{schema}"
    )
