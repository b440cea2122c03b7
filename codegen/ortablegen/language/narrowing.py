"""What a condition tells about the names in it: None or not, and which dtypes remain, when it holds
and when it fails."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass, replace

from ortable import dtypes

from .kinds import NONE, Kind

FLOATS = frozenset({dtypes.float16, dtypes.float32, dtypes.float64, dtypes.bfloat16})
INTEGERS = frozenset(
    {
        dtypes.int8,
        dtypes.int16,
        dtypes.int32,
        dtypes.int64,
        dtypes.uint8,
        dtypes.uint16,
        dtypes.uint32,
        dtypes.uint64,
    }
)
BOOLEAN = frozenset({dtypes.boolean})
COMPLEX = frozenset({dtypes.complex64, dtypes.complex128})
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
    held: bool = False


Env = dict[str, Value]


def narrowed(
    env: Mapping[str, Value], condition: ast.expr, holds: bool, linked: tuple[str, ...] = ()
) -> Env:
    """``env`` with what is known when ``condition`` holds (or fails).

    ``linked`` names the promoted arguments: they have the dtype that ``dtype_of(res)`` tells about.
    """
    result = dict(env)
    for test, truth in _facts(condition, holds):
        _apply(result, test, truth, linked)
    return result


def _facts(condition: ast.expr, holds: bool) -> list[tuple[ast.expr, bool]]:
    if isinstance(condition, ast.UnaryOp) and isinstance(condition.op, ast.Not):
        return _facts(condition.operand, not holds)
    if isinstance(condition, ast.BoolOp):
        splits = isinstance(condition.op, ast.And) if holds else isinstance(condition.op, ast.Or)
        return (
            [fact for value in condition.values for fact in _facts(value, holds)] if splits else []
        )
    return [(condition, holds)]


def _apply(env: Env, test: ast.expr, holds: bool, linked: tuple[str, ...]) -> None:
    if isinstance(test, ast.Compare) and len(test.ops) == 1:
        _apply_comparison(env, test, holds, linked)
    elif (
        isinstance(test, ast.Call)
        and isinstance(test.func, ast.Name)
        and test.func.id in TESTS
        and test.args
    ):
        _keep(env, test.args[0], TESTS[test.func.id], holds, linked)
    elif _is_call(test, "fits_attribute") and holds:
        number = test.args[0]  # type: ignore[attr-defined]
        if isinstance(number, ast.Name) and number.id in env:
            env[number.id] = replace(env[number.id], held=True)


def _is_call(node: ast.expr, name: str) -> bool:
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == name
        and bool(node.args)
    )


def _apply_comparison(env: Env, test: ast.Compare, holds: bool, linked: tuple[str, ...]) -> None:
    operator, right = test.ops[0], test.comparators[0]
    if (
        isinstance(operator, ast.Is | ast.IsNot)
        and isinstance(test.left, ast.Name)
        and test.left.id in env
    ):
        is_none = isinstance(operator, ast.Is) == holds
        known = env[test.left.id]
        env[test.left.id] = replace(
            known, kind=Kind(NONE, True) if is_none else known.kind.required()
        )
    elif (
        isinstance(operator, ast.Eq | ast.NotEq)
        and isinstance(test.left, ast.Call)
        and isinstance(right, ast.Name)
    ):
        called = test.left.func
        if isinstance(called, ast.Name) and called.id == "dtype_of" and test.left.args:
            one = frozenset({getattr(dtypes, right.id)}) if hasattr(dtypes, right.id) else None
            if one is not None:
                _keep(env, test.left.args[0], one, isinstance(operator, ast.Eq) == holds, linked)
    elif isinstance(operator, ast.In | ast.NotIn) and _is_call(test.left, "dtype_of"):
        listed = right.elts if isinstance(right, ast.Tuple | ast.List) else []
        names = [each.id for each in listed if isinstance(each, ast.Name)]
        if listed and len(names) == len(listed) and all(hasattr(dtypes, each) for each in names):
            some = frozenset(getattr(dtypes, each) for each in names)
            subject = test.left.args[0]  # type: ignore[attr-defined]
            _keep(env, subject, some, isinstance(operator, ast.In) == holds, linked)


def _keep(
    env: Env, subject: ast.expr, kept: frozenset[int], inside: bool, linked: tuple[str, ...]
) -> None:
    names = [subject.id] if isinstance(subject, ast.Name) else []
    if names and names[0] in ("res", *linked):
        names = [*linked, "res"]
    for name in names:
        if name in env:
            found = env[name].dtypes
            known = ALL if found is None else found
            env[name] = replace(env[name], dtypes=known & kept if inside else known - kept)
