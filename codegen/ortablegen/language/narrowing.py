"""Narrow what a condition that holds, or fails, says of names: None, and possible dtypes."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass, replace

from ortable import dtypes

from .kinds import NONE, Kind
from .parse import called_name, is_call, is_none_literal

HALVES = frozenset({dtypes.float16, dtypes.bfloat16})
FLOATS = HALVES | {dtypes.float32, dtypes.float64}
INTEGERS = dtypes.INT_TYPES - dtypes.SUB_BYTE
BOOLEAN = frozenset({dtypes.boolean})
COMPLEX = dtypes.COMPLEX_TYPES
ALL = FLOATS | INTEGERS | BOOLEAN | COMPLEX
# functions that test the dtype of their first argument -> the dtypes for which they may hold
TESTS = {
    "is_float": FLOATS,
    "is_int": INTEGERS,
    "is_bool": BOOLEAN,
    "is_complex": COMPLEX,
    "is_float32": frozenset({dtypes.float32}),
    "is_wide": frozenset({dtypes.float32, dtypes.float64}),
}
# the same for functions that test more than the dtype: their failure says nothing about it
PARTIAL_TESTS = {"are_split_rows": frozenset({dtypes.float32})}


@dataclass(frozen=True)
class Value:
    """What is known of the value of an expression.

    ``kind`` is its type in the language; ``dtypes`` are the possible dtypes (None: unknown);
    ``parts`` are the elements of a tuple; ``fits_float32``: the value is a number that a float32
    attribute represents as exactly as the node computes with it.
    """

    kind: Kind
    dtypes: frozenset[int] | None = None
    parts: tuple[Value, ...] | None = None
    fits_float32: bool = False


Env = dict[str, Value]


def narrow_env(
    env: Mapping[str, Value], condition: ast.expr, holds: bool, linked: tuple[str, ...] = ()
) -> Env:
    """Return a copy of ``env``, narrowed by a condition that holds, or fails if not ``holds``.

    ``linked`` names the promoted arguments: a test of the dtype of one, or of ``res``, narrows all.
    """
    narrowed = dict(env)
    for test, truth in _split_condition(condition, holds):
        _apply_test(narrowed, test, truth, linked)
    return narrowed


def _split_condition(condition: ast.expr, holds: bool) -> list[tuple[ast.expr, bool]]:
    """Split a condition into tests with known outcomes.

    If ``a and not b`` holds, they are (a, True) and (b, False); if it fails, none is known.
    """
    if isinstance(condition, ast.UnaryOp) and isinstance(condition.op, ast.Not):
        return _split_condition(condition.operand, not holds)
    if isinstance(condition, ast.BoolOp):
        all_known = isinstance(condition.op, ast.And) if holds else isinstance(condition.op, ast.Or)
        return (
            [outcome for value in condition.values for outcome in _split_condition(value, holds)]
            if all_known
            else []
        )
    return [(condition, holds)]


def _apply_test(env: Env, test: ast.expr, holds: bool, linked: tuple[str, ...]) -> None:
    if isinstance(test, ast.Compare) and len(test.ops) == 1:
        _narrow_by_comparison(env, test, holds, linked)
    elif is_call(test, *TESTS) and test.args:
        _restrict_dtypes(env, test.args[0], TESTS[called_name(test)], holds, linked)
    elif is_call(test, *PARTIAL_TESTS) and test.args and holds:
        _restrict_dtypes(env, test.args[0], PARTIAL_TESTS[called_name(test)], True, linked)
    elif is_call(test, "fits_attribute") and test.args and holds:
        argument = test.args[0]
        if isinstance(argument, ast.Name) and argument.id in env:
            env[argument.id] = replace(env[argument.id], fits_float32=True)


def _narrow_by_comparison(
    env: Env, test: ast.Compare, holds: bool, linked: tuple[str, ...]
) -> None:
    left, operator, right = test.left, test.ops[0], test.comparators[0]
    if isinstance(operator, ast.Is | ast.IsNot):
        if isinstance(left, ast.Name) and left.id in env and is_none_literal(right):
            is_none = isinstance(operator, ast.Is) == holds
            kind = Kind(NONE, True) if is_none else env[left.id].kind.without_none()
            env[left.id] = replace(env[left.id], kind=kind)
    elif is_call(left, "dtype_of") and left.args:
        dtype_nodes = right.elts if isinstance(right, ast.Tuple | ast.List) else [right]
        names = [dtype_node.id for dtype_node in dtype_nodes if isinstance(dtype_node, ast.Name)]
        tested_dtypes = frozenset(getattr(dtypes, name) for name in names if hasattr(dtypes, name))
        if (
            dtype_nodes
            and len(tested_dtypes) == len(dtype_nodes)
            and isinstance(operator, ast.Eq | ast.NotEq | ast.In | ast.NotIn)
        ):
            _restrict_dtypes(
                env,
                left.args[0],
                tested_dtypes,
                isinstance(operator, ast.Eq | ast.In) == holds,
                linked,
            )


def _restrict_dtypes(
    env: Env,
    argument: ast.expr,
    tested_dtypes: frozenset[int],
    is_member: bool,
    linked: tuple[str, ...],
) -> None:
    names = [argument.id] if isinstance(argument, ast.Name) else []
    if names and names[0] in ("res", *linked):
        names = [*linked, "res"]
    for name in names:
        if name in env:
            known_dtypes = env[name].dtypes
            possible_dtypes = ALL if known_dtypes is None else known_dtypes
            env[name] = replace(
                env[name],
                dtypes=possible_dtypes & tested_dtypes
                if is_member
                else possible_dtypes - tested_dtypes,
            )
