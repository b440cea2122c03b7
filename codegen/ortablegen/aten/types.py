"""``types:`` of an entry: type variables, their members, and which arguments have them.

In come entries that were read; out go the dtypes that each operand may have (`operand_dtypes`), and
the errors of the proof that `lower` serves every member. Called by `aten/check.py` and by tests."""

from __future__ import annotations

import ast
import difflib
import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from ortable import dtypes
from ortablegen.language import vocabulary
from ortablegen.language.members import Known, MemberChecker
from ortablegen.language.parse import Code
from ortablegen.language.served import Kernels
from ortablegen.schemas.onnx import DOMAIN_RANGE
from ortablegen.source.diagnostics import Diagnostics, Span

from .model import LowerCase, OpEntry, TypeVariable

FLOATS = (dtypes.float16, dtypes.bfloat16, dtypes.float32, dtypes.float64)
INTS = (dtypes.int8, dtypes.int16, dtypes.int32, dtypes.int64, dtypes.uint8)
UNSIGNED = (dtypes.uint16, dtypes.uint32, dtypes.uint64)
# what `types:` may call several dtypes
CLASSES: dict[str, tuple[int, ...]] = {
    "float": FLOATS,
    "int": INTS,
    "number": FLOATS + INTS,
    "real": (*FLOATS, *INTS, dtypes.boolean),
    "index": (dtypes.int32, dtypes.int64),
    "unsigned": UNSIGNED,
    "any": (*FLOATS, *INTS, dtypes.boolean, *UNSIGNED),
}
EVERY = CLASSES["any"]
_NAMES = {name: getattr(dtypes, name) for name in vocabulary.DTYPES}
_MOST_WORLDS = 120


def members_of(text: str) -> tuple[int, ...] | str:
    """The dtypes that ``"float int64"`` or ``"real -boolean"`` names, in the order of `EVERY`; the
    word that names none."""
    found: set[int] = set()
    for word in text.split():
        plain = word.removeprefix("-")
        named = CLASSES.get(plain) or ((_NAMES[plain],) if plain in _NAMES else ())
        if not named:
            return plain
        found = found - set(named) if word.startswith("-") else found | set(named)
    return tuple(each for each in EVERY if each in found)


def unknown_class(word: str) -> str:
    """What to say of a word that names no dtypes."""
    close = difflib.get_close_matches(word, [*CLASSES, *_NAMES], n=1)
    return f"'{word}' names no dtypes" + (f"; did you mean '{close[0]}'?" if close else "")


def operand_dtypes(entry: OpEntry) -> dict[str, frozenset[int]]:
    """Which dtypes each tensor argument may have when the operator is called, for the arguments
    that ``types:`` speaks of. Promoted arguments are those before promotion, all of one dtype."""
    promoted = entry.promote.args if entry.promote is not None else ()
    found: dict[str, frozenset[int]] = {}
    for variable in entry.types:
        before = frozenset(
            each for each in EVERY if _computed(entry, each) in variable.members
        )
        for name in variable.arguments:
            found[name] = before if name in promoted else frozenset(variable.members)
    return found


def inner_dtypes(entry: OpEntry) -> dict[str, frozenset[int]]:
    """Which dtypes each tensor argument may have inside ``lower``, where promoted ones are cast."""
    return {
        name: frozenset(variable.members)
        for variable in entry.types
        for name in variable.arguments
    }


def _computed(entry: OpEntry, dtype: int) -> int:
    """The dtype in which promoted arguments of one dtype are computed."""
    kind = entry.promote.kind if entry.promote is not None else ""
    is_float = dtype in FLOATS
    if kind == "int_to_float" and not is_float:
        return dtypes.float32
    if kind in ("bool_to_long", "pow") and dtype == dtypes.boolean:
        return dtypes.int64
    return dtype


# -- the proof ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _World:
    """One dtype for each variable, and how people read it."""

    chosen: Mapping[str, int]
    name: str


def _worlds(variables: tuple[TypeVariable, ...]) -> list[_World]:
    """Every choice of members; with too many of them each variable by itself, the others at their
    first member."""
    choices = list(itertools.islice(_choices(variables), _MOST_WORLDS + 1))
    if len(choices) > _MOST_WORLDS:
        firsts = {each.name: each.members[0] for each in variables}
        choices = [
            {**firsts, each.name: member} for each in variables for member in each.members
        ]
    return [_World(choice, _world_name(choice)) for choice in choices]


def _choices(variables: tuple[TypeVariable, ...]) -> Iterator[dict[str, int]]:
    names = [each.name for each in variables]
    for members in itertools.product(*(each.members for each in variables)):
        yield dict(zip(names, members, strict=True))


def _world_name(chosen: Mapping[str, int]) -> str:
    return ", ".join(f"{name} is {dtypes.name(dtype)}" for name, dtype in chosen.items())


@dataclass(frozen=True)
class Proof:
    """How many CapWords an entry has, and of how many every operand's dtype is known."""

    nodes: int
    proven: int


def check_types(entry: OpEntry, kernels: Kernels, diagnostics: Diagnostics) -> Proof:
    """Report the members of ``types:`` that a case of ``lower`` does not serve."""
    if not entry.types or not entry.lower:
        return Proof(0, 0)
    worlds = _worlds(entry.types)

    def report(span: Span, message: str, notes: list[str], fix: str | None = None) -> None:
        diagnostics.error(span, message, notes, fix)

    names = tuple(world.name for world in worlds)
    checker = MemberChecker(names, {}, kernels, report)
    checker.env = _environment(entry, worlds, checker)
    checker.optional = frozenset(a.name for a in entry.schema.arguments if a.type.endswith("?"))
    checker.live = (True,) * len(worlds)
    for name, code in entry.let:
        checker.code, checker.opsets = code, DOMAIN_RANGE[""]
        checker.env[name] = checker.value(code.expression)
    for case in entry.lower:
        left = _check_case(entry, case, checker)
        if left is None:
            break
        checker.live = left
    return Proof(checker.nodes, checker.proven)


def _check_case(
    entry: OpEntry, case: LowerCase, checker: MemberChecker
) -> tuple[bool, ...] | None:
    """Check one case; in which worlds a later one may be taken."""
    before, env = checker.live, checker.env
    truth: tuple[bool | None, ...] = (True,) * len(before)
    if case.when is not None:
        checker.code, checker.opsets = case.when, DOMAIN_RANGE[""]
        truth = checker.truth(case.when.expression)
    taken = tuple(was and holds is not False for was, holds in zip(before, truth, strict=True))
    if not any(taken) and case.refuse is None:
        members = ", ".join(f"{each.name}: {_spelled(each.members)}" for each in entry.types)
        checker.report(
            case.span,
            "no member of 'types' takes this case",
            [members],
            fix="remove the case, or add the dtypes to 'types'",
        )
        return None
    if case.refuse is not None:
        surely = [
            name
            for name, was, holds in zip(checker.names, before, truth, strict=True)
            if was and holds and case.target is None and case.opset is None
        ]
        if surely and _is_about_dtypes(case):
            checker.report(
                case.span,
                "this refuses members of 'types'",
                [f"where {'; '.join(surely[:6])}"],
                fix="leave them out of 'types'",
            )
    checker.live, checker.env = taken, dict(env)
    if case.when is not None:
        checker.env = checker.narrowed(checker.env, case.when.expression, True)
    if case.do is not None:
        checker.block(case.do, _opsets(case))
    checker.env = env
    if case.target is not None or case.opset is not None:
        checker.live = before
        return before
    if case.when is not None:
        checker.env = checker.narrowed(env, case.when.expression, False)
    return tuple(was and holds is not True for was, holds in zip(before, truth, strict=True))


def _is_about_dtypes(case: LowerCase) -> bool:
    """Whether the condition of a refusal is of dtypes alone; a last one refuses what is left."""
    return case.when is not None


def _opsets(case: LowerCase) -> tuple[int, int]:
    low, high = DOMAIN_RANGE[""]
    if case.opset is None:
        return low, high
    sign, version = case.opset
    return (max(low, version), high) if sign == ">=" else (low, min(high, version - 1))


def _environment(
    entry: OpEntry, worlds: list[_World], checker: MemberChecker
) -> dict[str, Known | None]:
    """What is known of the arguments, and of ``res``, in each world."""
    env: dict[str, Known | None] = {a.name: None for a in entry.schema.arguments}
    kinds = {argument.name: argument.type for argument in entry.schema.arguments}
    for variable in entry.types:
        chosen = tuple(world.chosen[variable.name] for world in worlds)
        for name in variable.arguments:
            kind = "dtype" if kinds[name].startswith("ScalarType") else "tensor"
            env[name] = Known("list" if "[]" in kinds[name] else kind, chosen)
    results = tuple(_result(entry, rule.dtype.expression, worlds, env) for rule in entry.out)
    env["res"] = Known("tuple", (), results)
    return env


def _result(
    entry: OpEntry, rule: ast.expr, worlds: list[_World], env: Mapping[str, Known | None]
) -> Known | None:
    """The dtype of a result by its rule, where that follows from those of the arguments."""
    if isinstance(rule, ast.Name):
        return Known("tensor", (_NAMES[rule.id],) * len(worlds)) if rule.id in _NAMES else None
    if not (isinstance(rule, ast.Call) and isinstance(rule.func, ast.Name)):
        return None
    names = [each.id for each in rule.args if isinstance(each, ast.Name)]
    word, promote = rule.func.id, entry.promote
    promoted = promote.args if promote is not None else ()
    given = env.get(names[0]) if names and len(names) == len(rule.args) else None
    if word == "promote" and not rule.keywords:
        if promote is None or not set(names) <= set(promoted) or given is None:
            return None
        if promote.kind == "always_bool":
            return Known("tensor", (dtypes.boolean,) * len(worlds))
        return given
    if given is None or names[0] in promoted:
        return None
    if word == "same":
        return Known("tensor", given.dtypes)
    if word == "accumulate":
        wide = set(INTS) | set(UNSIGNED) | {dtypes.boolean}
        return Known("tensor", tuple(dtypes.int64 if d in wide else d for d in given.dtypes))
    return None


def _spelled(members: tuple[int, ...]) -> str:
    return " ".join(dtypes.name(each) for each in members)


# -- variables in expressions -----------------------------------------------------------------------


class _Variables(ast.NodeTransformer):
    """``T`` in an expression becomes what it stands for."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        self.texts = texts

    def visit_Name(self, node: ast.Name) -> ast.AST:
        if node.id not in self.texts:
            return node
        found = ast.parse(self.texts[node.id], mode="eval").body
        for each in ast.walk(found):
            if isinstance(each, ast.expr | ast.keyword):
                ast.copy_location(each, node)
        return found


def with_variables(entry: OpEntry) -> OpEntry:
    """The entry with its type variables spelled out: ``T`` is ``dtype_of(self)`` in blocks and
    conditions, ``same(self)`` or ``promote(self, other)`` in ``out``."""
    inside, outside = _texts(entry)
    if not inside:
        return entry

    def spelled(code: Code | None, texts: Mapping[str, str]) -> Code | None:
        if code is None or not any(name in code.text for name in texts):
            return code
        return replace(code, body=tuple(_Variables(texts).visit(each) for each in code.body))

    def spelled_case(case: LowerCase) -> LowerCase:
        return replace(case, when=spelled(case.when, inside), do=spelled(case.do, inside))

    out = tuple(replace(rule, dtype=spelled(rule.dtype, outside)) for rule in entry.out)
    let = tuple((name, spelled(code, inside) or code) for name, code in entry.let)
    lower = tuple(spelled_case(case) for case in entry.lower)
    return replace(entry, out=out, let=let, lower=lower)  # type: ignore[arg-type]


def _texts(entry: OpEntry) -> tuple[dict[str, str], dict[str, str]]:
    promoted = entry.promote.args if entry.promote is not None else ()
    types = {argument.name: argument.type for argument in entry.schema.arguments}
    inside: dict[str, str] = {}
    outside: dict[str, str] = {}
    for variable in entry.types:
        plain = [name for name in variable.arguments if types[name] == "Tensor"]
        if variable.name in types or not plain:
            continue
        first = next((name for name in plain if name in promoted), plain[0])
        inside[variable.name] = f"dtype_of({first})"
        outside[variable.name] = (
            f"promote({', '.join(promoted)})" if first in promoted else f"same({first})"
        )
    return inside, outside
