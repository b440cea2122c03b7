"""Parse operator schemas with torch's parser into frozen dataclasses."""

from __future__ import annotations

import keyword
from dataclasses import dataclass
from typing import Any

MAX_CHARACTERS = 4000  # torch's longest schema has 605
MAX_LEVELS = 8  # nesting of brackets; torch's schemas have 3


@dataclass(frozen=True)
class Argument:
    """An argument of a torch schema.

    ``name`` is its name in specs and generated code (a Python keyword gets a trailing underscore),
    ``torch_name`` its name in torch; ``type`` is torch's real type, which distinguishes ``SymInt``
    and ``ScalarType`` from int.
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

    ``text`` is the schema as torch prints it. ``written`` are the arguments that a custom operator
    writes into: functionalization appends their new values to the results, so ``returns`` ends in
    their types. ``suffix`` distinguishes the functions of an operator that has an entry for each of
    several ranges of torch versions: "_torch_before_2_15".
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
    """A schema text that torch cannot parse, lacks, or has in a different form."""

    def __init__(self, message: str, notes: tuple[str, ...] = (), fix: str | None = None) -> None:
        super().__init__(message)
        self.notes = notes
        self.fix = fix


def parsed_schema(text: str) -> Any:
    """Parse ``text`` with torch's parser.

    Raises:
        SchemaProblem: torch cannot parse it, or it is too long or too deep for torch's parser.
    """
    import torch

    fix = "copy the schema from torch: print(torch.ops.aten.relu.default._schema)"
    reason = _find_text_problem(text)
    if reason is not None:
        raise SchemaProblem(f"torch cannot parse this schema: {reason}", fix=fix)
    try:
        return torch._C.parse_schema(text)
    except (RuntimeError, ValueError, IndexError, OverflowError) as error:
        first_line = "".join(str(error).strip().splitlines()[:1])
        raise SchemaProblem(f"torch cannot parse this schema: {first_line}", fix=fix) from None


def _find_text_problem(text: str) -> str | None:
    """Return why ``text`` must not reach torch's parser, which crashes on deep nesting, or None."""
    if not text.isascii() or not text.replace("\n", " ").isprintable():
        return "it has characters that are not ASCII"
    if len(text) > MAX_CHARACTERS:
        return f"it has more than {MAX_CHARACTERS} characters"
    depth = 0
    for character in text:
        depth += (character in "([") - (character in ")]")
        if depth > MAX_LEVELS:
            break
    has_deep_list = "[]" * MAX_LEVELS in text.replace(" ", "")
    return (
        f"it is nested in more than {MAX_LEVELS} levels"
        if depth > MAX_LEVELS or has_deep_list
        else None
    )


def key_of_schema(schema: Any) -> str:
    """Return the key of a ``torch._C.FunctionSchema``, for example ``aten::add.Tensor``."""
    name: str = schema.name
    return f"{name}.{schema.overload_name}" if schema.overload_name else name


def from_torch_schema(schema: Any) -> OpSchema:
    """Convert a ``torch._C.FunctionSchema`` to an :class:`OpSchema`."""
    key = key_of_schema(schema)
    arguments = tuple(_convert_argument(argument) for argument in schema.arguments)
    returns = tuple(type_text(result.real_type) for result in schema.returns)
    written = _written_arguments(schema)
    returns += ("Tensor",) * len(written)
    return OpSchema(key, str(schema), arguments, returns, schema.is_mutable, written)


def _written_arguments(schema: Any) -> tuple[str, ...]:
    """Return the written arguments of a custom operator, whose new values become results.

    The result is empty for torch's operators, if a result aliases an argument, and unless every
    written argument is a single tensor.
    """
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


_TYPE_NAMES = {
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
    """Format a torch type as schemas do: ``SymInt[]``, ``Tensor?``, ``ScalarType?``.

    ``str()`` of a torch type prints SymInt as int, so this function looks the kinds up in a table.
    """
    kind = real_type.kind()
    if kind == "OptionalType":
        return type_text(real_type.getElementType()) + "?"
    if kind == "ListType":
        return type_text(real_type.getElementType()) + "[]"
    return _TYPE_NAMES.get(kind, str(real_type))
