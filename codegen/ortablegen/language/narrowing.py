"""What a condition tells about the names in it: None or not, and which dtypes remain, when it holds
and when it fails."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass, replace

from ortable import dtypes

from .kinds import NONE, Kind
from .parse import called_name, is_call

HALVES = frozenset({dtypes.float16, dtypes.bfloat16})
FLOATS = HALVES | {dtypes.float32, dtypes.float64}
INTEGERS = frozenset(d for d in dtypes.INT_TYPES if d not in dtypes.SUB_BYTE)
BOOLEAN = frozenset({dtypes.boolean})
COMPLEX = dtypes.COMPLEX_TYPES
ALL = FLOATS | INTEGERS | BOOLEAN | COMPLEX
TESTS = {
    "is_float": FLOATS,
    "is_int": INTEGERS,
    "is_bool": BOOLEAN,
    "is_complex": COMPLEX,
    "is_float32": frozenset({dtypes.float32}),
    "are_split_rows": frozenset({dtypes.float32}),
    "is_wide": frozenset({dtypes.float32, dtypes.float64}),
}


@dataclass(frozen=True)
class Value:
    """The class of an expression, the dtypes that it may have (None: nothing known), its parts when
    it is a tuple; ``held``: a number that an attribute of float32 holds as exactly as its node
    computes."""

    kind: Kind
    dtypes: frozenset[int] | None = None
    parts: tuple[Value, ...] | None = None
    fits_float32: bool = False


Env = dict[str, Value]


def narrow_env(
    env: Mapping[str, Value], condition: ast.expr, holds: bool, linked: tuple[str, ...] = ()
) -> Env:
    """Return ``env`` with what is known when ``condition`` holds (or fails).

    ``linked`` names the promoted arguments, which have the dtype of ``dtype_of(res)``.
    """
    result = dict(env)
    for test, truth in _split_facts(condition, holds):
        _apply_fact(result, test, truth, linked)
    return result


def _split_facts(condition: ast.expr, holds: bool) -> list[tuple[ast.expr, bool]]:
    if isinstance(condition, ast.UnaryOp) and isinstance(condition.op, ast.Not):
        return _split_facts(condition.operand, not holds)
    if isinstance(condition, ast.BoolOp):
        splits = isinstance(condition.op, ast.And) if holds else isinstance(condition.op, ast.Or)
        return (
            [fact for value in condition.values for fact in _split_facts(value, holds)]
            if splits
            else []
        )
    return [(condition, holds)]


def _apply_fact(env: Env, test: ast.expr, holds: bool, linked: tuple[str, ...]) -> None:
    if isinstance(test, ast.Compare) and len(test.ops) == 1:
        _apply_comparison(env, test, holds, linked)
    elif is_call(test, *TESTS) and test.args:
        _restrict_dtypes(env, test.args[0], TESTS[called_name(test)], holds, linked)
    elif is_call(test, "fits_attribute") and test.args and holds:
        number = test.args[0]
        if isinstance(number, ast.Name) and number.id in env:
            env[number.id] = replace(env[number.id], fits_float32=True)


def _apply_comparison(env: Env, test: ast.Compare, holds: bool, linked: tuple[str, ...]) -> None:
    left, operator, right = test.left, test.ops[0], test.comparators[0]
    if isinstance(operator, ast.Is | ast.IsNot):
        if isinstance(left, ast.Name) and left.id in env:
            is_none = isinstance(operator, ast.Is) == holds
            kind = Kind(NONE, True) if is_none else env[left.id].kind.without_none()
            env[left.id] = replace(env[left.id], kind=kind)
    elif is_call(left, "dtype_of") and left.args:
        listed = right.elts if isinstance(right, ast.Tuple | ast.List) else [right]
        names = [item.id for item in listed if isinstance(item, ast.Name)]
        members = frozenset(getattr(dtypes, name) for name in names if hasattr(dtypes, name))
        if (
            listed
            and len(members) == len(listed)
            and isinstance(operator, ast.Eq | ast.NotEq | ast.In | ast.NotIn)
        ):
            _restrict_dtypes(
                env, left.args[0], members, isinstance(operator, ast.Eq | ast.In) == holds, linked
            )


def _restrict_dtypes(
    env: Env, subject: ast.expr, members: frozenset[int], inside: bool, linked: tuple[str, ...]
) -> None:
    names = [subject.id] if isinstance(subject, ast.Name) else []
    if names and names[0] in ("res", *linked):
        names = [*linked, "res"]
    for name in names:
        if name in env:
            current = env[name].dtypes
            possible = ALL if current is None else current
            env[name] = replace(
                env[name], dtypes=possible & members if inside else possible - members
            )
