"""torch schemas as frozen dataclasses: parsed by torch itself and compared verbatim with the
installed registry."""

from __future__ import annotations

import difflib
import importlib
import keyword
from dataclasses import dataclass
from functools import cache
from typing import Any


@dataclass(frozen=True)
class Argument:
    """One argument of a torch schema.

    ``name`` is what specs and generated code call it (a Python keyword gets a trailing underscore),
    ``torch_name`` what torch calls it; ``type`` is torch's real type, where ``SymInt`` and
    ``ScalarType`` are not printed as int.
    """

    name: str
    torch_name: str
    type: str
    kwarg_only: bool
    has_default: bool
    default: Any = None


@dataclass(frozen=True)
class OpSchema:
    """One overload: ``key`` is ``OpOverload.name()``, for example ``aten::add.Tensor``.

    ``written`` are the arguments of a library's operator that it writes into: a functionalised
    graph calls it for its results and then their new values, and so ``returns`` ends in these.
    """

    key: str
    text: str
    arguments: tuple[Argument, ...]
    returns: tuple[str, ...]
    is_mutable: bool
    written: tuple[str, ...] = ()

    @property
    def function_name(self) -> str:
        """The name of the generated converter, for example ``aten_add_Tensor``."""
        return self.key.replace("::", "_").replace(".", "_")


class SchemaProblem(Exception):
    """A schema text that torch cannot parse, does not know, or knows differently."""

    def __init__(self, message: str, notes: tuple[str, ...] = (), fix: str | None = None) -> None:
        super().__init__(message)
        self.notes = notes
        self.fix = fix


@cache
def import_problem(module: str) -> str | None:
    """Why ``module``, whose import registers operators, cannot be imported; None when it was."""
    try:
        importlib.import_module(module)
    except Exception as error:  # a package built for another torch fails in ways of its own
        first = str(error).strip().splitlines()[:1]
        return f"{module} cannot be imported: {type(error).__name__}: {''.join(first)}"
    return None


def schema_of(text: str, requires: str | None = None) -> OpSchema:
    """Parse the verbatim schema ``text`` and check it against torch's registry.

    ``requires`` is the module that registers the operator: where it cannot be imported, the text
    itself is the schema.

    Raises:
        SchemaProblem: not parsable, unknown to torch, or different from torch's.
    """
    import torch

    try:
        parsed = torch._C.parse_schema(text)
    except RuntimeError as error:
        raise SchemaProblem(
            f"torch cannot parse this schema: {str(error).strip().splitlines()[0]}",
            fix="copy the schema from torch: print(torch.ops.aten.relu.default._schema)",
        ) from None
    key = parsed.name + (f".{parsed.overload_name}" if parsed.overload_name else "")
    absent = requires is not None and import_problem(requires) is not None
    known = from_torch_schema(parsed) if absent else schema_of_key(key, requires)
    if known.text != " ".join(text.split()):
        raise SchemaProblem(
            f"the schema of '{key}' differs from torch's", notes=(f"torch has: {known.text}",)
        )
    return known


@cache
def schema_of_key(key: str, requires: str | None = None) -> OpSchema:
    """The registered schema of ``key`` (``aten::add.Tensor``).

    Raises:
        SchemaProblem: torch has no such overload; the notes name the closest ones.
    """
    problem = import_problem(requires) if requires is not None else None
    found = registered_schema(key)
    if found is None and problem is not None:
        raise SchemaProblem(f"the schema of '{key}' is unknown", notes=(problem,))
    if found is None:
        close = difflib.get_close_matches(key, known_keys(), n=3, cutoff=0.6)
        notes = (f"did you mean {', '.join(close)}?",) if close else ()
        raise SchemaProblem(f"torch has no operator '{key}'", notes=notes)
    return from_torch_schema(found)


def registered_schema(key: str) -> Any:
    """torch's own schema object for ``key``, or None."""
    import torch

    name, _, overload = key.partition(".")
    namespace, _, plain = name.partition("::")
    try:
        packet = getattr(getattr(torch.ops, namespace), plain)
        return getattr(packet, overload or "default")._schema
    except (AttributeError, RuntimeError):
        return None


def from_torch_schema(schema: Any) -> OpSchema:
    """Turn a ``torch._C.FunctionSchema`` into an :class:`OpSchema`."""
    key = schema.name + (f".{schema.overload_name}" if schema.overload_name else "")
    arguments = tuple(_argument(argument) for argument in schema.arguments)
    returns = tuple(type_text(result.real_type) for result in schema.returns)
    written = _written(schema)
    returns += ("Tensor",) * len(written)
    return OpSchema(key, str(schema), arguments, returns, schema.is_mutable, written)


def _written(schema: Any) -> tuple[str, ...]:
    """The arguments that torch functionalises by ``auto_functionalized``: those that a library's
    operator writes into, if each is a tensor and no result is an argument."""
    if schema.name.partition("::")[0] in ("aten", "prims", "prim"):
        return ()
    if any(result.alias_info is not None for result in schema.returns):
        return ()
    found = [a for a in schema.arguments if a.alias_info is not None and a.alias_info.is_write]
    if any(type_text(argument.real_type) != "Tensor" for argument in found):
        return ()
    return tuple(argument.name for argument in found)


def _argument(argument: Any) -> Argument:
    name = argument.name
    if keyword.iskeyword(name):
        name += "_"
    default = argument.default_value if argument.has_default_value() else None
    return Argument(
        name=name,
        torch_name=argument.name,
        type=type_text(argument.real_type),
        kwarg_only=argument.kwarg_only,
        has_default=argument.has_default_value(),
        default=default,
    )


_KINDS = {
    "TensorType": "Tensor",
    "IntType": "int",
    "SymIntType": "SymInt",
    "FloatType": "float",
    "BoolType": "bool",
    "SymBoolType": "SymBool",
    "StringType": "str",
    "NumberType": "Scalar",
    "ScalarTypeType": "ScalarType",
    "ComplexType": "complex",
}


def type_text(real_type: Any) -> str:
    """A torch type as the schema writes it: ``SymInt[]``, ``Tensor?``, ``ScalarType?``.

    ``str()`` of a torch type prints SymInt as int, so this walks the kinds.
    """
    kind = real_type.kind()
    if kind == "OptionalType":
        return type_text(real_type.getElementType()) + "?"
    if kind == "ListType":
        return type_text(real_type.getElementType()) + "[]"
    return _KINDS.get(kind, str(real_type))


@cache
def known_keys() -> tuple[str, ...]:
    """All overloads of the ``aten`` and ``prims`` name spaces, sorted."""
    import torch

    names = {
        schema.name + (f".{schema.overload_name}" if schema.overload_name else "")
        for schema in torch._C._jit_get_all_schemas()
        if schema.name.startswith(("aten::", "prims::"))
    }
    return tuple(sorted(names))


@cache
def argument_names() -> frozenset[str]:
    """Every argument name of every operator that torch has registered."""
    import torch

    return frozenset(a.name for schema in torch._C._jit_get_all_schemas() for a in schema.arguments)
