"""torch schemas as frozen dataclasses, parsed by torch itself."""

from __future__ import annotations

import keyword
from dataclasses import dataclass
from typing import Any

MAX_CHARACTERS = 4000  # torch's longest schema has 605
MAX_LEVELS = 8  # of parentheses and brackets; torch's schemas have 3


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
    ``suffix`` tells apart the functions of an operator with several entries.
    """

    key: str
    text: str
    arguments: tuple[Argument, ...]
    returns: tuple[str, ...]
    is_mutable: bool
    written: tuple[str, ...] = ()
    suffix: str = ""

    @property
    def names(self) -> frozenset[str]:
        """The names of the arguments."""
        return frozenset(argument.name for argument in self.arguments)

    @property
    def function_name(self) -> str:
        """The name of the generated converter, for example ``aten_add_Tensor``."""
        return self.key.replace("::", "_").replace(".", "_") + self.suffix


class SchemaProblem(Exception):
    """A schema text that torch cannot parse, does not know, or knows differently."""

    def __init__(self, message: str, notes: tuple[str, ...] = (), fix: str | None = None) -> None:
        super().__init__(message)
        self.notes = notes
        self.fix = fix


def parsed_schema(text: str) -> Any:
    """``text`` as torch parses it.

    Raises:
        SchemaProblem: torch cannot parse it.
    """
    import torch

    fix = "copy the schema from torch: print(torch.ops.aten.relu.default._schema)"
    reason = _no_schema(text)
    if reason is not None:
        raise SchemaProblem(f"torch cannot parse this schema: {reason}", fix=fix)
    try:
        return torch._C.parse_schema(text)
    except (RuntimeError, ValueError, IndexError, OverflowError) as error:
        first = "".join(str(error).strip().splitlines()[:1])
        raise SchemaProblem(f"torch cannot parse this schema: {first}", fix=fix) from None


def _no_schema(text: str) -> str | None:
    """Why a text is not given to torch, whose parser, in C++, goes as deep as the text and ends the
    process there."""
    if not text.isascii() or not text.replace("\n", " ").isprintable():
        return "it has characters that are not ASCII"
    if len(text) > MAX_CHARACTERS:
        return f"it has more than {MAX_CHARACTERS} characters"
    depth = 0
    for character in text:
        depth += (character in "([") - (character in ")]")
        if depth > MAX_LEVELS:
            break
    lists = "[]" * MAX_LEVELS in text.replace(" ", "")
    return f"it is nested in more than {MAX_LEVELS} levels" if depth > MAX_LEVELS or lists else None


def key_of_schema(schema: Any) -> str:
    name: str = schema.name
    return f"{name}.{schema.overload_name}" if schema.overload_name else name


def from_torch_schema(schema: Any) -> OpSchema:
    """Turn a ``torch._C.FunctionSchema`` into an :class:`OpSchema`."""
    key = key_of_schema(schema)
    arguments = tuple(_convert_argument(argument) for argument in schema.arguments)
    returns = tuple(type_text(result.real_type) for result in schema.returns)
    written = _written_arguments(schema)
    returns += ("Tensor",) * len(written)
    return OpSchema(key, str(schema), arguments, returns, schema.is_mutable, written)


def _written_arguments(schema: Any) -> tuple[str, ...]:
    """The arguments that torch functionalises by ``auto_functionalized``: those that a library's
    operator writes into, if each is a tensor and no result is an argument."""
    if schema.name.partition("::")[0] in ("aten", "prims", "prim"):
        return ()
    if any(result.alias_info is not None for result in schema.returns):
        return ()
    arguments = [a for a in schema.arguments if a.alias_info is not None and a.alias_info.is_write]
    if any(type_text(argument.real_type) != "Tensor" for argument in arguments):
        return ()
    return tuple(argument.name for argument in arguments)


def _convert_argument(argument: Any) -> Argument:
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
