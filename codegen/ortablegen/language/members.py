"""Check a piece of spec language for each assignment of dtypes to the entry's type variables.

An assignment is, for example, ``T is int8``. For each, and at every opset, the checker infers the
operand dtypes of each CapWord call, and reports operands that ONNX or the kernel table do not
accept. Operands of unknown dtype, such as the result of a function without a dtype rule in this
file, are not checked.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from ortable import dtypes

from . import kinds, narrowing, vocabulary
from .narrowing import HALVES, Value
from .parse import Code, called_name, is_call, is_none_literal, names_in, onnx_call
from .served import Kernels

Vector: TypeAlias = "tuple[int | None, ...]"  # a dtype for each assignment; None: unknown
Truth: TypeAlias = "tuple[bool | None, ...]"  # for each assignment; None: unknown

_OPMATH: dict[int | None, int] = {dtypes.float16: dtypes.float32, dtypes.bfloat16: dtypes.float32}
# Functions whose result has the dtype of an argument -> the argument's position
SAME = {
    "along_axis": 0, "as_flat": 0, "at_least_1d": 0, "const_like": 1,
    "expanded": 0, "expanded_like": 0, "flipped_along": 0,
    "hypot_of": 0, "cropped": 0, "matrix_product": 0, "matrix_transpose": 0, "permuted": 0,
    "polynomial": 0, "reshape_to": 0, "scaled": 0, "sliced": 0, "squeezed": 0, "summed_over": 0,
    "reduced_extreme": 0, "product_over": 0, "take_along_dim": 0, "triu": 0, "unsqueezed": 0,
    "with_rank_of": 0, "log1p_of": 0, "atan_of": 0, "atan2_of": 0,
    "erf_of": 0, "floor_quotient": 0, "int_pow": 0, "truncated": 0,
}  # fmt: skip
# Functions that get the dtype of their result as an argument -> the argument's position
GIVEN = {
    "arange_of": 3, "cast": 1, "const": 1, "consts": 1, "filled": 2, "filled_like": 2,
    "in_dtype": 1, "zeros_of": 1,
}  # fmt: skip
# Functions whose result always has the same dtype
FIXED_DTYPE = {
    "argsort": dtypes.int64, "as_scalar": dtypes.int64, "as_vec": dtypes.int64,
    "count_true": dtypes.int64, "int_range": dtypes.int64,
    "iota": dtypes.int64, "nonzero_rows": dtypes.int64, "window_indices": dtypes.int64,
    "all_true": dtypes.boolean, "any_true": dtypes.boolean, "is_sign_set": dtypes.boolean,
}  # fmt: skip


@dataclass(frozen=True)
class KnownValue:
    """A value with its dtype in every assignment, or the dtype itself if ``kind`` is "dtype".

    Other kinds are "tensor", "list" (of tensors of one dtype), "bool" (with ``truth``), "none", and
    "tuple" (with ``parts``).
    """

    kind: str
    dtypes: Vector = ()
    parts: tuple[KnownValue | None, ...] = ()
    truth: Truth = ()


Report = Callable[..., None]


@dataclass
class MemberChecker:
    """Checks code for all dtype assignments at once.

    ``names`` are the assignments as errors show them (``T is int8``); ``live`` marks the
    assignments in which the code runs; ``optional`` are the arguments that may be None. ``nodes``
    counts the node calls, ``proven`` those whose operand dtypes are known in all live assignments.
    """

    names: tuple[str, ...]
    env: dict[str, KnownValue | None]
    kernels: Kernels
    report: Report
    live: tuple[bool, ...] = ()
    optional: frozenset[str] = frozenset()
    opsets: tuple[int, int] = (0, 0)
    code: Code | None = None
    nodes: int = field(default=0)
    proven: int = field(default=0)

    def fixed_value(self, kind: str, dtype: int) -> KnownValue:
        """Return a value of one dtype in every assignment."""
        return KnownValue(kind, (dtype,) * len(self.names))

    @property
    def unknown_truth(self) -> Truth:
        """The truth of a condition that is unknown in every assignment."""
        return (None,) * len(self.names)

    # -- statements -----------------------------------------------------------------------------

    def check_block(self, code: Code, opsets: tuple[int, int]) -> None:
        """Check every node call of a block."""
        self.code, self.opsets = code, opsets
        for statement in code.body:
            if isinstance(statement, ast.Assign):
                target = statement.targets[0]
                if isinstance(target, ast.Name):
                    self.env[target.id] = self.infer_value(statement.value)
                elif isinstance(target, ast.Tuple):
                    value = self.infer_value(statement.value, len(target.elts))
                    for index, name in enumerate(target.elts):
                        assert isinstance(name, ast.Name)
                        self.env[name.id] = _select_item(value, index)
            elif isinstance(statement, ast.Return) and statement.value is not None:
                self.infer_value(statement.value)

    # -- conditions -----------------------------------------------------------------------------

    def infer_truth(self, node: ast.expr) -> Truth:
        """Infer a condition for each assignment: True, False, or None if unknown."""
        if isinstance(node, ast.Name):
            operand = self.env.get(node.id)
            return (
                operand.truth
                if operand is not None and operand.kind == "bool"
                else self.unknown_truth
            )
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            return tuple(
                None if holds is None else not holds for holds in self.infer_truth(node.operand)
            )
        if isinstance(node, ast.BoolOp):
            operand_truths = [self.infer_truth(value) for value in node.values]
            deciding_value = isinstance(node.op, ast.Or)
            return tuple(
                _combine_truth(column, deciding_value)
                for column in zip(*operand_truths, strict=True)
            )
        if is_call(node, *narrowing.TESTS) and len(node.args) == 1:
            return self.infer_membership(
                self.infer_operand(node.args[0]), narrowing.TESTS[called_name(node)]
            )
        if isinstance(node, ast.Compare) and len(node.ops) == 1:
            return self.infer_comparison(node.left, node.ops[0], node.comparators[0])
        return self.unknown_truth

    def infer_comparison(self, left: ast.expr, operator: ast.cmpop, right: ast.expr) -> Truth:
        """Infer a comparison of dtypes or with None."""
        unknown = self.unknown_truth
        if isinstance(operator, ast.Is | ast.IsNot):
            name = left.id if isinstance(left, ast.Name) else ""
            operand = self.env.get(name)
            if name in self.optional and operand is not None and operand.kind != "none":
                return unknown
            if operand is None or not is_none_literal(right):
                return unknown
            return ((operand.kind == "none") == isinstance(operator, ast.Is),) * len(self.names)
        if not isinstance(operator, ast.Eq | ast.NotEq | ast.In | ast.NotIn):
            return unknown
        left_value = self.infer_value(left)
        sides = right.elts if isinstance(right, ast.Tuple | ast.List) else [right]
        right_values = [self.infer_value(side) for side in sides]
        if left_value is None or left_value.kind != "dtype":
            return unknown
        if any(side is None or side.kind != "dtype" for side in right_values):
            return unknown
        truth: list[bool | None] = []
        for index, dtype in enumerate(left_value.dtypes):
            right_dtypes = [side.dtypes[index] for side in right_values if side is not None]
            is_in = isinstance(operator, ast.Eq | ast.In)
            is_known = dtype is not None and None not in right_dtypes
            truth.append((dtype in right_dtypes) == is_in if is_known else None)
        return tuple(truth)

    def infer_membership(self, value: KnownValue | None, members: frozenset[int]) -> Truth:
        """Infer in which assignments the dtype of ``value`` is one of ``members``."""
        if value is None or value.kind not in ("tensor", "dtype", "list"):
            return self.unknown_truth
        return tuple(None if dtype is None else dtype in members for dtype in value.dtypes)

    def infer_operand(self, node: ast.expr) -> KnownValue | None:
        """Infer the operand of a dtype test; ``res`` alone means ``res[0]``."""
        value = self.infer_value(node)
        if isinstance(node, ast.Name) and node.id == "res":
            return _select_item(value, 0)
        return value

    # -- expressions ----------------------------------------------------------------------------

    def infer_value(self, node: ast.expr, outputs: int = 1) -> KnownValue | None:
        """Infer the kind and dtypes of an expression, with ``outputs`` results; None if unknown."""
        if isinstance(node, ast.Name):
            if node.id in self.env:
                return self.env[node.id]
            is_dtype = node.id in vocabulary.DTYPES
            return self.fixed_value("dtype", getattr(dtypes, node.id)) if is_dtype else None
        if isinstance(node, ast.Constant):
            return KnownValue("none") if node.value is None else None
        if isinstance(node, ast.Call):
            return self.infer_call(node, outputs)
        if isinstance(node, ast.IfExp):
            return self.infer_ternary(node, outputs)
        if isinstance(node, ast.Tuple):
            return KnownValue(
                "tuple", (), tuple(self.infer_value(element) for element in node.elts)
            )
        if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
            index = node.slice.value
            container = self.infer_value(node.value)
            return _select_item(container, index) if isinstance(index, int) else container
        return self.infer_remaining_node(node)

    def infer_remaining_node(self, node: ast.expr) -> KnownValue | None:
        """Infer lists and conditions, and visit the parts of other expressions."""
        if isinstance(node, ast.BoolOp | ast.Compare | ast.UnaryOp):
            return KnownValue("bool", truth=self.infer_truth(node))
        if isinstance(node, ast.List):
            elements = [self.infer_value(element) for element in node.elts]
            if (
                elements
                and all(element == elements[0] for element in elements)
                and elements[0] is not None
            ):
                return (
                    KnownValue("list", elements[0].dtypes) if elements[0].kind == "tensor" else None
                )
        elif isinstance(node, ast.ListComp):
            return self.infer_comprehension(node)
        else:
            for child in ast.iter_child_nodes(node):
                if isinstance(child, ast.expr):
                    self.infer_value(child)
        return None

    def infer_comprehension(self, node: ast.ListComp) -> KnownValue | None:
        """Infer a list comprehension."""
        loop = node.generators[0]
        source = self.infer_value(loop.iter)
        saved_env = dict(self.env)
        for name in names_in(loop.target):
            self.env[name.id] = _select_item(source, 0) if name is loop.target else None
        element = self.infer_value(node.elt)
        self.env = saved_env
        return KnownValue("list", element.dtypes) if element and element.kind == "tensor" else None

    def infer_ternary(self, node: ast.IfExp, outputs: int) -> KnownValue | None:
        """Infer both sides of a ternary, each in the assignments in which it may be taken."""
        truth, saved_live = self.infer_truth(node.test), self.live
        env = self.env
        self.live = _intersect_live(saved_live, [holds is not False for holds in truth])
        self.env = self.narrow_env(env, node.test, True)
        left = self.infer_value(node.body, outputs)
        self.live = _intersect_live(saved_live, [holds is not True for holds in truth])
        self.env = self.narrow_env(env, node.test, False)
        right = self.infer_value(node.orelse, outputs)
        self.live, self.env = saved_live, env
        return _merge_sides(left, right, truth)

    def narrow_env(
        self, env: dict[str, KnownValue | None], test: ast.expr, holds: bool
    ) -> dict[str, KnownValue | None]:
        """Return ``env`` with ``x`` bound to None after a ``test`` ``x is None`` that ``holds``."""
        if (
            isinstance(test, ast.Compare)
            and isinstance(test.left, ast.Name)
            and isinstance(test.ops[0], ast.Is | ast.IsNot)
            and isinstance(test.ops[0], ast.Is) == holds
            and is_none_literal(test.comparators[0])
        ):
            return {**env, test.left.id: KnownValue("none")}
        return env

    def infer_call(self, node: ast.Call, outputs: int) -> KnownValue | None:
        """Infer the result of a call."""
        if onnx_call(node) is not None:
            return self.infer_onnx(node, outputs)
        name = called_name(node)
        values = [self.infer_value(_strip_star(argument)) for argument in node.args]
        for keyword in node.keywords:
            self.infer_value(keyword.value)

        def argument_at(index: int) -> KnownValue | None:
            return values[index] if index < len(values) else None

        if name == "dtype_of" and node.args:
            operand = self.infer_operand(node.args[0])
            return (
                KnownValue("dtype", operand.dtypes)
                if operand and operand.kind == "tensor"
                else None
            )
        if name in FIXED_DTYPE:
            return self.fixed_value("tensor", FIXED_DTYPE[name])
        if name in SAME:
            operand = argument_at(SAME[name])
            return operand if operand is not None and operand.kind == "tensor" else None
        if name in GIVEN:
            return self.infer_cast(argument_at(GIVEN[name]), argument_at(0), name)
        if name in ("opmath", "opmath_dtype"):
            operand = argument_at(0)
            if operand is None or operand.kind not in ("tensor", "dtype"):
                return None
            return KnownValue(
                operand.kind, tuple(_OPMATH.get(dtype, dtype) for dtype in operand.dtypes)
            )
        # the result is this dtype or float32, which every node that accepts half floats accepts
        if name == "opmath_beside":
            return argument_at(1)
        if name == "cast_all":
            operand = argument_at(1)
            return (
                KnownValue("list", operand.dtypes) if operand and operand.kind == "dtype" else None
            )
        if name in ("list", "tuple", "reversed") and argument_at(0) is not None:
            return argument_at(0)
        return None

    def infer_cast(
        self, dtype: KnownValue | None, value: KnownValue | None, name: str
    ) -> KnownValue | None:
        """Infer the result of a function that casts to ``dtype``; ``cast(x, None)`` is ``x``."""
        if dtype is not None and dtype.kind == "dtype":
            return KnownValue("tensor", dtype.dtypes)
        returns_value = name == "cast" and dtype is not None and dtype.kind == "none"
        return value if returns_value else None

    def infer_onnx(self, node: ast.Call, outputs: int) -> KnownValue | None:
        """Infer a node call's results; check it unless ``to`` or ``dtype`` sets their dtype."""
        callee = onnx_call(node)
        assert callee is not None
        domain, op = callee
        values = [self.infer_value(_strip_star(argument)) for argument in node.args]
        for keyword in node.keywords:
            dtype_value = self.infer_value(keyword.value)
            if keyword.arg in ("to", "dtype"):  # the node makes a tensor of this dtype
                return (
                    KnownValue("tensor", dtype_value.dtypes)
                    if dtype_value and dtype_value.kind == "dtype"
                    else None
                )
            if keyword.arg == "outputs":
                outputs = 1
        if any(isinstance(argument, ast.Starred) for argument in node.args[:-1]):
            return None
        results: list[list[int | None]] = [[] for _ in range(outputs)]
        problems: dict[tuple[str, int | None], list[str]] = {}
        self.nodes += 1
        is_complete = True
        for index, name in enumerate(self.names):
            operands = tuple(_operand_dtype(value, index) for value in values)
            verdict = self.kernels.find_verdict(domain, op, self.opsets, operands, outputs)
            for position, dtype in enumerate(verdict.outputs):
                results[position].append(dtype)
            if self.live[index]:
                is_complete = is_complete and None not in operands
                if verdict.problem is not None:
                    problems.setdefault((verdict.problem, verdict.position), []).append(name)
        self.proven += is_complete
        self.report_problems(node, problems)
        parts = tuple(KnownValue("tensor", tuple(vector)) for vector in results)
        return parts[0] if outputs == 1 else KnownValue("tuple", (), parts)

    def report_problems(
        self, node: ast.Call, problems: dict[tuple[str, int | None], list[str]]
    ) -> None:
        """Report the first problem of each operand with its assignments; count those of others."""
        for position in dict.fromkeys(position for _, position in problems):
            position_problems = [problem for problem in problems if problem[1] == position]
            operand: ast.AST = node
            if position is not None:
                operand = node.args[min(position, len(node.args) - 1)]
            assert self.code is not None
            notes = [f"where {_format_assignments(problems[position_problems[0]])}"]
            if len(position_problems) > 1:
                other_count = sum(len(problems[problem]) for problem in position_problems[1:])
                notes.append(
                    f"and for {other_count} other choice{'s' * (other_count > 1)} of dtypes"
                )
            fix = "add a case or a cast for this dtype, or remove it from 'types'"
            self.report(self.code.at(operand), position_problems[0][0], notes, fix)


def _strip_star(node: ast.expr) -> ast.expr:
    return node.value if isinstance(node, ast.Starred) else node


def _operand_dtype(value: KnownValue | None, index: int) -> int | None:
    if value is None:
        return None
    if value.kind == "none":
        return 0
    return value.dtypes[index] if value.kind in ("tensor", "list") else None


def _select_item(value: KnownValue | None, index: int) -> KnownValue | None:
    if value is None:
        return None
    if value.kind == "list":
        return KnownValue("tensor", value.dtypes)
    if value.kind == "tuple":
        return value.parts[index] if -len(value.parts) <= index < len(value.parts) else None
    return None


def _combine_truth(column: Iterable[bool | None], deciding_value: bool) -> bool | None:
    """Compute ``or`` (``deciding_value`` True) or ``and`` (False) of partly known truth values."""
    values = list(column)
    if deciding_value in values:
        return deciding_value
    return None if None in values else not deciding_value


def _intersect_live(live: tuple[bool, ...], conditions: Iterable[bool]) -> tuple[bool, ...]:
    return tuple(is_live and is_taken for is_live, is_taken in zip(live, conditions, strict=True))


def _merge_sides(
    left: KnownValue | None, right: KnownValue | None, truth: Truth
) -> KnownValue | None:
    """Return the value of a ternary, which takes ``left`` where ``truth`` is True."""
    if left == right or all(holds is True for holds in truth):
        return left
    if all(holds is False for holds in truth):
        return right
    if left is None or right is None or "none" in (left.kind, right.kind):
        return None
    if left.kind == right.kind == "tuple" and len(left.parts) == len(right.parts):
        pairs = zip(left.parts, right.parts, strict=True)
        return KnownValue("tuple", (), tuple(_merge_sides(a, b, truth) for a, b in pairs))
    if left.kind != right.kind:
        return None
    merged: list[Any] = []
    for a, b, is_left in zip(left.dtypes, right.dtypes, truth, strict=True):
        merged.append((a if a == b else None) if is_left is None else a if is_left else b)
    return KnownValue(left.kind, tuple(merged))


def _format_assignments(names: list[str]) -> str:
    """Format ``T is int8`` and ``T is int16`` as ``T is int8, int16``, others separately."""
    heads = {name.rpartition(" is ")[0] for name in names}
    if len(heads) == 1:
        return f"{heads.pop()} is {', '.join(name.rpartition(' is ')[2] for name in names)}"
    first_names = "; ".join(names[:6])
    return first_names + (f" and {len(names) - 6} more" if len(names) > 6 else "")


# -- dtypes of results ----------------------------------------------------------------------------

_INT64 = frozenset({dtypes.int64})
# Only for `helper_dtypes`: function -> parameter whose dtype its result has.
_DTYPE_SOURCES = {
    "merged_heads": "heads", "make_ones": "like",
    "dtype_of": "x",
    **dict.fromkeys(
        (
            "gathered_pad", "lgamma_of", "power_norm", "projected", "relu_of",
            "rolled_along", "rows_of", "sliced", "unit_like",
        ),
        "x",
    ),
    **dict.fromkeys(("fmod_of", "larger_of", "remainder_of", "smaller_of", "trunc_quotient"), "a"),
}  # fmt: skip
_RESULT_DTYPE_SETS = {
    **dict.fromkeys(("run_ids", "run_lengths"), _INT64),
    **dict.fromkeys(("c_truth", "run_starts"), narrowing.BOOLEAN),
}


def helper_dtypes(
    helper: vocabulary.HelperFunction, arguments: Mapping[str, Value]
) -> frozenset[int] | None:
    """Return the dtypes that a helper's result may have; None if unknown."""
    if helper.name in _RESULT_DTYPE_SETS:
        return _RESULT_DTYPE_SETS[helper.name]
    if helper.name in FIXED_DTYPE:
        return frozenset({FIXED_DTYPE[helper.name]})
    if helper.name in ("opmath", "opmath_dtype"):
        return _widen_halves(arguments.get("x", arguments.get("dtype")))
    if helper.name == "opmath_beside":
        dtype_argument = arguments.get("dtype")
        opmath_dtypes = _widen_halves(dtype_argument)
        return (
            opmath_dtypes | dtype_argument.dtypes
            if dtype_argument is not None and dtype_argument.dtypes and opmath_dtypes
            else None
        )
    name = _DTYPE_SOURCES.get(helper.name, "")
    if helper.name in SAME:
        name = helper.parameters[SAME[helper.name]].name
    source = arguments.get(name)
    if source is not None:
        return source.dtypes
    dtype_argument = arguments.get("dtype")
    if dtype_argument is not None and dtype_argument.kind.base in (kinds.DTYPE, kinds.INT):
        return dtype_argument.dtypes
    return None


def _widen_halves(value: Value | None) -> frozenset[int]:
    """Return the dtypes in which torch computes with ``value``: float32 for half floats."""
    members = narrowing.ALL if value is None or value.dtypes is None else value.dtypes
    return (members - HALVES) | {dtypes.float32} if members & HALVES else members
