"""Check ``lower`` for all members of ``types:``, and compute the dtypes of operands."""

from __future__ import annotations

import ast
import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass

from ortable import dtypes
from ortablegen.language.members import KnownValue, MemberChecker
from ortablegen.language.parse import called_name, is_call
from ortablegen.language.served import Kernels
from ortablegen.schemas.onnx import DOMAIN_RANGE
from ortablegen.source.diagnostics import Diagnostics

from .model import LowerCase, OpEntry, TypeVariable
from .type_variables import ALL_DTYPES, DTYPES, FLOATS, INTS, UNSIGNED

_MAX_ASSIGNMENTS = 120


def operand_dtypes(entry: OpEntry) -> dict[str, frozenset[int]]:
    """Return the dtypes of each argument of ``types:`` in a call, before promotion."""
    promoted = entry.promote.args if entry.promote is not None else ()
    allowed: dict[str, frozenset[int]] = {}
    for variable in entry.types:
        # uint16 to uint64 only if they are members themselves
        unpromoted = frozenset(
            dtype
            for dtype in ALL_DTYPES
            if _compute_dtype(entry, dtype) in variable.members
            and (dtype not in UNSIGNED or dtype in variable.members)
        )
        for name in variable.arguments:
            allowed[name] = unpromoted if name in promoted else frozenset(variable.members)
    return allowed


def inner_dtypes(entry: OpEntry) -> dict[str, frozenset[int]]:
    """Return the dtypes of each tensor argument inside ``lower``, where promoted ones are cast."""
    return {
        name: frozenset(variable.members) for variable in entry.types for name in variable.arguments
    }


def _compute_dtype(entry: OpEntry, dtype: int) -> int:
    """Return the dtype to which promoted arguments are cast if all have the same dtype."""
    kind = entry.promote.kind if entry.promote is not None else ""
    if kind == "int_to_float" and dtype not in FLOATS:
        return dtypes.float32
    if kind in ("bool_to_long", "pow") and dtype == dtypes.boolean:
        return dtypes.int64
    return dtype


# -- the check ------------------------------------------------------------------------------------


Assignment = Mapping[str, int]  # a dtype for each variable


def _enumerate_assignments(variables: tuple[TypeVariable, ...]) -> list[Assignment]:
    """Return all assignments of members; if there are too many, vary one variable at a time."""
    if math.prod(len(variable.members) for variable in variables) > _MAX_ASSIGNMENTS:
        firsts = {variable.name: variable.members[0] for variable in variables}
        return [
            {**firsts, variable.name: member}
            for variable in variables
            for member in variable.members
        ]
    names = [variable.name for variable in variables]
    combinations = itertools.product(*(variable.members for variable in variables))
    return [dict(zip(names, members, strict=True)) for members in combinations]


def _format_assignment(assignment: Assignment) -> str:
    return ", ".join(f"{name} is {dtypes.name(dtype)}" for name, dtype in assignment.items())


@dataclass(frozen=True)
class Proof:
    """The number of ONNX nodes of an entry, and of nodes whose operand dtypes are all known."""

    nodes: int
    proven: int


def check_types(entry: OpEntry, kernels: Kernels, diagnostics: Diagnostics) -> Proof:
    """Report members of ``types:`` that ``lower`` does not support, and cases that none reaches."""
    if not entry.types or not entry.lower:
        return Proof(0, 0)
    assignments = _enumerate_assignments(entry.types)
    checker = MemberChecker(
        tuple(map(_format_assignment, assignments)), {}, kernels, diagnostics.error
    )
    checker.env = _initial_env(entry, assignments)
    checker.optional = frozenset(a.name for a in entry.schema.arguments if a.type.endswith("?"))
    checker.live = (True,) * len(assignments)
    for name, code in entry.let:
        checker.code, checker.opsets = code, DOMAIN_RANGE[""]
        checker.env[name] = checker.infer_value(code.expression)
    for case in entry.lower:
        live = _check_case(entry, case, checker)
        if live is None:
            break
        checker.live = live
    return Proof(checker.nodes, checker.proven)


def _check_case(entry: OpEntry, case: LowerCase, checker: MemberChecker) -> tuple[bool, ...] | None:
    """Check a case; return which assignments may reach a later case, or None after an error."""
    live_before, env = checker.live, checker.env
    truth: tuple[bool | None, ...] = (True,) * len(live_before)
    if case.when is not None:
        checker.code, checker.opsets = case.when, DOMAIN_RANGE[""]
        truth = checker.infer_truth(case.when.expression)
    live = tuple(
        is_live and holds is not False for is_live, holds in zip(live_before, truth, strict=True)
    )
    if not any(live) and case.refuse is None:
        members = ", ".join(
            f"{variable.name}: {_format_members(variable.members)}" for variable in entry.types
        )
        checker.report(
            case.span,
            "no member of 'types' takes this case",
            [members],
            fix="remove the case, or add the dtypes to 'types'",
        )
        return None
    if case.refuse is not None and case.target is None and case.opset is None:
        refused_names = [
            name
            for name, is_live, holds in zip(checker.names, live_before, truth, strict=True)
            if is_live and holds
        ]
        # a final refusal without a condition only refuses calls that no earlier case takes
        if refused_names and case.when is not None:
            checker.report(
                case.span,
                "this case refuses members of 'types'",
                [f"where {'; '.join(refused_names[:6])}"],
                fix="remove them from 'types'",
            )
    checker.live, checker.env = live, dict(env)
    if case.when is not None:
        checker.env = checker.narrow_env(checker.env, case.when.expression, True)
    if case.do is not None:
        checker.check_block(case.do, case.opset_range)
    checker.env = env
    if case.target is not None or case.opset is not None:
        checker.live = live_before
        return live_before
    if case.when is not None:
        checker.env = checker.narrow_env(env, case.when.expression, False)
    return tuple(
        is_live and holds is not True for is_live, holds in zip(live_before, truth, strict=True)
    )


def _initial_env(entry: OpEntry, assignments: list[Assignment]) -> dict[str, KnownValue | None]:
    """Return the known values of the arguments and of ``res``, per assignment."""
    env: dict[str, KnownValue | None] = {a.name: None for a in entry.schema.arguments}
    kinds = {argument.name: argument.type for argument in entry.schema.arguments}
    for variable in entry.types:
        members = tuple(assignment[variable.name] for assignment in assignments)
        for name in variable.arguments:
            kind = "dtype" if kinds[name].startswith("ScalarType") else "tensor"
            env[name] = KnownValue("list" if "[]" in kinds[name] else kind, members)
    results = tuple(
        _result_type(entry, rule.dtype.expression, assignments, env) for rule in entry.out
    )
    env["res"] = KnownValue("tuple", (), results)
    return env


def _result_type(
    entry: OpEntry,
    rule: ast.expr,
    assignments: list[Assignment],
    env: Mapping[str, KnownValue | None],
) -> KnownValue | None:
    """Derive the dtype of a result from its rule and the arguments' dtypes; None if unknown."""
    if isinstance(rule, ast.Name):
        return (
            KnownValue("tensor", (DTYPES[rule.id],) * len(assignments))
            if rule.id in DTYPES
            else None
        )
    if not is_call(rule):
        return None
    names = [argument.id for argument in rule.args if isinstance(argument, ast.Name)]
    rule_function, promote = called_name(rule), entry.promote
    promoted = promote.args if promote is not None else ()
    operand = env.get(names[0]) if names and len(names) == len(rule.args) else None
    if rule_function == "promote" and not rule.keywords:
        if promote is None or not set(names) <= set(promoted) or operand is None:
            return None
        if promote.kind == "always_bool":
            return KnownValue("tensor", (dtypes.boolean,) * len(assignments))
        return operand
    if operand is None or names[0] in promoted:
        return None
    if rule_function == "same":
        return KnownValue("tensor", operand.dtypes)
    if rule_function == "accumulate":
        sum_dtypes = set(INTS) | set(UNSIGNED) | {dtypes.boolean}
        return KnownValue(
            "tensor", tuple(dtypes.int64 if d in sum_dtypes else d for d in operand.dtypes)
        )
    return None


def _format_members(members: tuple[int, ...]) -> str:
    return " ".join(dtypes.name(dtype) for dtype in members)
