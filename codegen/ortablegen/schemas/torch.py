"""torch schemas as frozen dataclasses: parsed by torch itself and compared verbatim with the
installed registry."""

from __future__ import annotations

import difflib
import importlib
import keyword
import re
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


@dataclass(frozen=True)
class TorchVersions:
    """What an entry says of torch's versions: the range that has the operator (``present``, empty:
    all of them), and the schema text that the operator has in other ranges (``others``)."""

    present: str = ""
    others: tuple[tuple[str, str], ...] = ()

    def has(self, version: tuple[int, int]) -> bool:
        """Whether torch ``version`` has the operator."""
        return in_range(self.present, version)

    def text(self, own: str, version: tuple[int, int]) -> str:
        """The schema of the operator in torch ``version``; ``own`` stands in the entry."""
        return next((text for span, text in self.others if in_range(span, version)), own)


EVERY_VERSION = TorchVersions()
_BOUND = re.compile(r"(<=|>=|<|>)\s*(\d+)\.(\d+)")
_HOLDS = {
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}


def is_range(text: str) -> bool:
    """Whether ``text`` is a range of versions: ``"<2.15"``, ``">=2.14, <2.16"``."""
    return all(_BOUND.fullmatch(bound.strip()) for bound in text.split(","))


def in_range(text: str, version: tuple[int, int]) -> bool:
    """Whether ``version`` meets every bound of ``text``; an empty range holds all versions."""
    bounds = _BOUND.findall(text)
    return all(_HOLDS[sign](version, (int(major), int(minor))) for sign, major, minor in bounds)


@cache
def installed_torch() -> tuple[int, int]:
    """Major and minor version of the installed torch."""
    import torch

    major, minor = torch.__version__.split(".")[:2]
    return int(major), int(minor)


def parsed_schema(text: str) -> Any:
    """``text`` as torch parses it.

    Raises:
        SchemaProblem: torch cannot parse it.
    """
    import torch

    try:
        return torch._C.parse_schema(text)
    except RuntimeError as error:
        raise SchemaProblem(
            f"torch cannot parse this schema: {str(error).strip().splitlines()[0]}",
            fix="copy the schema from torch: print(torch.ops.aten.relu.default._schema)",
        ) from None


def schema_of(
    text: str, requires: str | None = None, versions: TorchVersions = EVERY_VERSION
) -> OpSchema:
    """Parse the verbatim schema ``text`` and check it against torch's registry.

    ``requires`` is the module that registers the operator: where it cannot be imported, the text
    itself is the schema. So it is where ``versions`` says that the installed torch has another
    schema, or none: what is generated does not depend on the version, only the comparison does.

    Raises:
        SchemaProblem: not parsable, unknown to torch, or different from torch's.
    """
    parsed = parsed_schema(text)
    key = _key_of(parsed)
    for _, other in versions.others:
        _check_other_schema(parsed, parsed_schema(other))
    if not versions.has(installed_torch()):
        if registered_schema(key) is not None:
            raise SchemaProblem(f"this torch has '{key}', which 'torch: {versions.present}' denies")
        return from_torch_schema(parsed)
    if requires is not None and import_problem(requires) is not None:
        known = from_torch_schema(parsed)
    else:
        known = schema_of_key(key, requires)
    expected = versions.text(text, installed_torch())
    if known.text != " ".join(expected.split()):
        raise SchemaProblem(
            f"the schema of '{key}' differs from torch's", notes=(f"torch has: {known.text}",)
        )
    return known if expected == text else from_torch_schema(parsed)


def _key_of(schema: Any) -> str:
    name: str = schema.name
    return f"{name}.{schema.overload_name}" if schema.overload_name else name


def _check_other_schema(own: Any, other: Any) -> None:
    """Another version's schema serves the same converter: the same operator, and arguments that
    differ in names and types only."""
    if _key_of(other) != _key_of(own):
        raise SchemaProblem(
            f"'torch' gives a schema of '{_key_of(other)}', not of '{_key_of(own)}'"
        )
    kinds = [[(a.kwarg_only, a.has_default_value()) for a in s.arguments] for s in (own, other)]
    if kinds[0] != kinds[1] or len(own.returns) != len(other.returns):
        raise SchemaProblem(
            f"the schemas of '{_key_of(own)}' differ in more than names and types of arguments",
            notes=("one converter serves all versions of torch",),
        )


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
    key = _key_of(schema)
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
        _key_of(schema)
        for schema in torch._C._jit_get_all_schemas()
        if schema.name.startswith(("aten::", "prims::"))
    }
    return tuple(sorted(names))


@cache
def argument_names() -> frozenset[str]:
    """Every argument name of every operator that torch has registered."""
    import torch

    return frozenset(a.name for schema in torch._C._jit_get_all_schemas() for a in schema.arguments)
