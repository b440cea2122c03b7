"""Prove that ``lower`` serves all members of ``types:``, and say which dtypes operands may have."""

from __future__ import annotations

import ast
import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass

from ortable import dtypes
from ortablegen.language.members import Known, MemberChecker
from ortablegen.language.parse import called, is_call
from ortablegen.language.served import Kernels
from ortablegen.schemas.onnx import DOMAIN_RANGE
from ortablegen.source.diagnostics import Diagnostics

from .model import LowerCase, OpEntry, TypeVariable
from .type_variables import DTYPES, EVERY, FLOATS, INTS, UNSIGNED

_MOST_WORLDS = 120


def operand_dtypes(entry: OpEntry) -> dict[str, frozenset[int]]:
    """Which dtypes each tensor argument may have when the operator is called, for the arguments
    that ``types:`` speaks of. Promoted arguments are those before promotion, all of one dtype."""
    promoted = entry.promote.args if entry.promote is not None else ()
    found: dict[str, frozenset[int]] = {}
    for variable in entry.types:
        # of the wide unsigned ints, those that are members
        before = frozenset(
            each
            for each in EVERY
            if _computed(entry, each) in variable.members
            and (each not in UNSIGNED or each in variable.members)
        )
        for name in variable.arguments:
            found[name] = before if name in promoted else frozenset(variable.members)
    return found


def inner_dtypes(entry: OpEntry) -> dict[str, frozenset[int]]:
    """Which dtypes each tensor argument may have inside ``lower``, where promoted ones are cast."""
    return {
        name: frozenset(variable.members) for variable in entry.types for name in variable.arguments
    }


def _computed(entry: OpEntry, dtype: int) -> int:
    """The dtype in which promoted arguments of one dtype are computed."""
    kind = entry.promote.kind if entry.promote is not None else ""
    if kind == "int_to_float" and dtype not in FLOATS:
        return dtypes.float32
    if kind in ("bool_to_long", "pow") and dtype == dtypes.boolean:
        return dtypes.int64
    return dtype


# -- the proof ------------------------------------------------------------------------------------


World = Mapping[str, int]  # a dtype for each variable


def _worlds(variables: tuple[TypeVariable, ...]) -> list[World]:
    """Every choice of members; with too many of them each variable by itself, the others at their
    first member."""
    if math.prod(len(each.members) for each in variables) > _MOST_WORLDS:
        firsts = {each.name: each.members[0] for each in variables}
        return [{**firsts, each.name: member} for each in variables for member in each.members]
    names = [each.name for each in variables]
    every = itertools.product(*(each.members for each in variables))
    return [dict(zip(names, members, strict=True)) for members in every]


def _name(world: World) -> str:
    return ", ".join(f"{name} is {dtypes.name(dtype)}" for name, dtype in world.items())


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
    checker = MemberChecker(tuple(map(_name, worlds)), {}, kernels, diagnostics.error)
    checker.env = _environment(entry, worlds)
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


def _check_case(entry: OpEntry, case: LowerCase, checker: MemberChecker) -> tuple[bool, ...] | None:
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
    if case.refuse is not None and case.target is None and case.opset is None:
        surely = [
            name
            for name, was, holds in zip(checker.names, before, truth, strict=True)
            if was and holds
        ]
        # a last refusal, without a condition, is of what the cases before it leave
        if surely and case.when is not None:
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
        checker.block(case.do, case.opsets)
    checker.env = env
    if case.target is not None or case.opset is not None:
        checker.live = before
        return before
    if case.when is not None:
        checker.env = checker.narrowed(env, case.when.expression, False)
    return tuple(was and holds is not True for was, holds in zip(before, truth, strict=True))


def _environment(entry: OpEntry, worlds: list[World]) -> dict[str, Known | None]:
    """What is known of the arguments, and of ``res``, in each world."""
    env: dict[str, Known | None] = {a.name: None for a in entry.schema.arguments}
    kinds = {argument.name: argument.type for argument in entry.schema.arguments}
    for variable in entry.types:
        chosen = tuple(world[variable.name] for world in worlds)
        for name in variable.arguments:
            kind = "dtype" if kinds[name].startswith("ScalarType") else "tensor"
            env[name] = Known("list" if "[]" in kinds[name] else kind, chosen)
    results = tuple(_result(entry, rule.dtype.expression, worlds, env) for rule in entry.out)
    env["res"] = Known("tuple", (), results)
    return env


def _result(
    entry: OpEntry, rule: ast.expr, worlds: list[World], env: Mapping[str, Known | None]
) -> Known | None:
    """The dtype of a result by its rule, where that follows from those of the arguments."""
    if isinstance(rule, ast.Name):
        return Known("tensor", (DTYPES[rule.id],) * len(worlds)) if rule.id in DTYPES else None
    if not is_call(rule):
        return None
    names = [each.id for each in rule.args if isinstance(each, ast.Name)]
    word, promote = called(rule), entry.promote
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
