"""Prove a piece of spec language for each member of its entry's type variables: which dtype every
operand of a CapWord has, and whether ONNX and the kernel table take it, at every opset.

A world is one choice of a dtype for each variable. A word whose result has no dtype rule here gives
a result of unknown dtype, of which nothing is said.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from ortable import dtypes

from . import kinds, narrowing, vocabulary
from .narrowing import HALVES, Value
from .parse import Code, called, is_call, names_in, onnx_call
from .served import Kernels

Vector: TypeAlias = "tuple[int | None, ...]"  # a dtype a world; None where it is not known
Truth: TypeAlias = "tuple[bool | None, ...]"

_COMPUTED: dict[int | None, int] = {dtypes.float16: dtypes.float32, dtypes.bfloat16: dtypes.float32}
# Words whose result has the dtype of an argument: its position, and its name
SAME = {
    "along_axis": 0, "as_flat": 0, "at_least_1d": 0, "const_like": 1,
    "expanded": 0, "expanded_like": 0, "flipped_along": 0,
    "hypot_of": 0, "cropped": 0, "matrix_product": 0, "matrix_transpose": 0, "permuted": 0,
    "polynomial": 0, "reshape_to": 0, "scaled": 0, "sliced": 0, "squeezed": 0, "summed_over": 0,
    "reduced_extreme": 0, "product_over": 0, "take_along_dim": 0, "triu": 0, "unsqueezed": 0,
    "with_rank_of": 0, "log1p_of": 0, "atan_of": 0, "atan2_of": 0,
    "erf_of": 0, "floor_quotient": 0, "int_pow": 0, "truncated": 0,
}  # fmt: skip
# Words that give the dtype that an argument names
GIVEN = {
    "arange_of": 3, "cast": 1, "const": 1, "consts": 1, "filled": 2, "filled_like": 2,
    "in_dtype": 1, "zeros_of": 1,
}  # fmt: skip
# Words with one dtype of result
FIXED = {
    "argsort": dtypes.int64, "as_scalar": dtypes.int64, "as_vec": dtypes.int64,
    "count_true": dtypes.int64, "int_range": dtypes.int64,
    "iota": dtypes.int64, "nonzero_rows": dtypes.int64, "window_indices": dtypes.int64,
    "all_true": dtypes.boolean, "any_true": dtypes.boolean, "is_sign_set": dtypes.boolean,
}  # fmt: skip


@dataclass(frozen=True)
class Known:
    """What is known of a value, by world: a tensor, a list of tensors of one dtype, a dtype, or a
    bool (``kind``); None as a value of kind ``none``; several values of kind ``tuple``."""

    kind: str
    dtypes: Vector = ()
    parts: tuple[Known | None, ...] = ()
    truth: Truth = ()


Report = Callable[..., None]


@dataclass
class MemberChecker:
    """Walks code for all worlds at once; ``names`` are the worlds as people read them
    (``T = int8``), ``live`` those in which the code runs."""

    names: tuple[str, ...]
    env: dict[str, Known | None]
    kernels: Kernels
    report: Report
    live: tuple[bool, ...] = ()
    optional: frozenset[str] = frozenset()
    opsets: tuple[int, int] = (0, 0)
    code: Code | None = None
    nodes: int = field(default=0)
    proven: int = field(default=0)

    def fixed(self, kind: str, dtype: int) -> Known:
        """A value of one dtype in every world."""
        return Known(kind, (dtype,) * len(self.names))

    @property
    def unknown(self) -> Truth:
        """A condition of which nothing is known."""
        return (None,) * len(self.names)

    # -- statements -----------------------------------------------------------------------------

    def block(self, code: Code, opsets: tuple[int, int]) -> None:
        """Prove every CapWord of a block."""
        self.code, self.opsets = code, opsets
        for statement in code.body:
            if isinstance(statement, ast.Assign):
                target = statement.targets[0]
                if isinstance(target, ast.Name):
                    self.env[target.id] = self.value(statement.value)
                elif isinstance(target, ast.Tuple):
                    value = self.value(statement.value, len(target.elts))
                    for place, name in enumerate(target.elts):
                        assert isinstance(name, ast.Name)
                        self.env[name.id] = _item(value, place)
            elif isinstance(statement, ast.Return) and statement.value is not None:
                self.value(statement.value)

    # -- conditions -----------------------------------------------------------------------------

    def truth(self, node: ast.expr) -> Truth:
        """In which worlds a condition holds, and fails; None where neither is known."""
        if isinstance(node, ast.Name):
            known = self.env.get(node.id)
            return known.truth if known is not None and known.kind == "bool" else self.unknown
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            return tuple(None if each is None else not each for each in self.truth(node.operand))
        if isinstance(node, ast.BoolOp):
            every = [self.truth(value) for value in node.values]
            decides = isinstance(node.op, ast.Or)
            return tuple(_joined(column, decides) for column in zip(*every, strict=True))
        if is_call(node, *narrowing.TESTS) and len(node.args) == 1:
            return self.among(self.asked(node.args[0]), narrowing.TESTS[called(node)])
        if isinstance(node, ast.Compare) and len(node.ops) == 1:
            return self.compared(node.left, node.ops[0], node.comparators[0])
        return self.unknown

    def compared(self, left: ast.expr, operator: ast.cmpop, right: ast.expr) -> Truth:
        unknown = self.unknown
        if isinstance(operator, ast.Is | ast.IsNot):
            name = left.id if isinstance(left, ast.Name) else ""
            known = self.env.get(name)
            if name in self.optional and known is not None and known.kind != "none":
                return unknown
            if known is None or not (isinstance(right, ast.Constant) and right.value is None):
                return unknown
            return ((known.kind == "none") == isinstance(operator, ast.Is),) * len(self.names)
        if not isinstance(operator, ast.Eq | ast.NotEq | ast.In | ast.NotIn):
            return unknown
        first = self.value(left)
        sides = right.elts if isinstance(right, ast.Tuple | ast.List) else [right]
        seconds = [self.value(each) for each in sides]
        if first is None or first.kind != "dtype":
            return unknown
        if any(each is None or each.kind != "dtype" for each in seconds):
            return unknown
        found: list[bool | None] = []
        for world, dtype in enumerate(first.dtypes):
            others = [each.dtypes[world] for each in seconds if each is not None]
            is_in = isinstance(operator, ast.Eq | ast.In)
            is_known = dtype is not None and None not in others
            found.append((dtype in others) == is_in if is_known else None)
        return tuple(found)

    def among(self, value: Known | None, wanted: frozenset[int]) -> Truth:
        if value is None or value.kind not in ("tensor", "dtype", "list"):
            return self.unknown
        return tuple(None if each is None else each in wanted for each in value.dtypes)

    def asked(self, node: ast.expr) -> Known | None:
        """What a word that asks about a result is asked about; ``res`` alone means ``res[0]``."""
        value = self.value(node)
        if isinstance(node, ast.Name) and node.id == "res":
            return _item(value, 0)
        return value

    # -- expressions ----------------------------------------------------------------------------

    def value(self, node: ast.expr, outputs: int = 1) -> Known | None:
        """What is known of an expression."""
        if isinstance(node, ast.Name):
            if node.id in self.env:
                return self.env[node.id]
            is_dtype = node.id in vocabulary.DTYPES
            return self.fixed("dtype", getattr(dtypes, node.id)) if is_dtype else None
        if isinstance(node, ast.Constant):
            return Known("none") if node.value is None else None
        if isinstance(node, ast.Call):
            return self.call(node, outputs)
        if isinstance(node, ast.IfExp):
            return self.choice(node, outputs)
        if isinstance(node, ast.Tuple):
            return Known("tuple", (), tuple(self.value(each) for each in node.elts))
        if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
            place = node.slice.value
            found = self.value(node.value)
            return _item(found, place) if isinstance(place, int) else found
        return self.others(node)

    def others(self, node: ast.expr) -> Known | None:
        """Lists and conditions, and expressions of which nothing is known, but whose parts may hold
        CapWords."""
        if isinstance(node, ast.BoolOp | ast.Compare | ast.UnaryOp):
            return Known("bool", truth=self.truth(node))
        if isinstance(node, ast.List):
            known = [self.value(each) for each in node.elts]
            if known and all(each == known[0] for each in known) and known[0] is not None:
                return Known("list", known[0].dtypes) if known[0].kind == "tensor" else None
        elif isinstance(node, ast.ListComp):
            return self.comprehension(node)
        else:
            for child in ast.iter_child_nodes(node):
                if isinstance(child, ast.expr):
                    self.value(child)
        return None

    def comprehension(self, node: ast.ListComp) -> Known | None:
        loop = node.generators[0]
        source = self.value(loop.iter)
        saved = dict(self.env)
        for name in names_in(loop.target):
            self.env[name.id] = _item(source, 0) if name is loop.target else None
        element = self.value(node.elt)
        self.env = saved
        return Known("list", element.dtypes) if element and element.kind == "tensor" else None

    def choice(self, node: ast.IfExp, outputs: int) -> Known | None:
        truth, saved = self.truth(node.test), self.live
        env = self.env
        self.live = _meet(saved, [each is not False for each in truth])
        self.env = self.narrowed(env, node.test, True)
        left = self.value(node.body, outputs)
        self.live = _meet(saved, [each is not True for each in truth])
        self.env = self.narrowed(env, node.test, False)
        right = self.value(node.orelse, outputs)
        self.live, self.env = saved, env
        return _either(left, right, truth)

    def narrowed(
        self, env: dict[str, Known | None], test: ast.expr, holds: bool
    ) -> dict[str, Known | None]:
        """Names that are None, as the condition says."""
        if (
            isinstance(test, ast.Compare)
            and isinstance(test.left, ast.Name)
            and isinstance(test.ops[0], ast.Is | ast.IsNot)
            and isinstance(test.ops[0], ast.Is) == holds
        ):
            return {**env, test.left.id: Known("none")}
        return env

    def call(self, node: ast.Call, outputs: int) -> Known | None:
        if onnx_call(node) is not None:
            return self.onnx(node, outputs)
        name = called(node)
        values = [self.value(_plain(argument)) for argument in node.args]
        for keyword in node.keywords:
            self.value(keyword.value)

        def at(place: int) -> Known | None:
            return values[place] if place < len(values) else None

        if name == "dtype_of" and node.args:
            found = self.asked(node.args[0])
            return Known("dtype", found.dtypes) if found and found.kind == "tensor" else None
        if name in FIXED:
            return self.fixed("tensor", FIXED[name])
        if name in SAME:
            found = at(SAME[name])
            return found if found is not None and found.kind == "tensor" else None
        if name in GIVEN:
            return self.given(at(GIVEN[name]), at(0), name)
        if name in ("opmath", "opmath_dtype"):
            found = at(0)
            if found is None or found.kind not in ("tensor", "dtype"):
                return None
            return Known(found.kind, tuple(_COMPUTED.get(each, each) for each in found.dtypes))
        if name == "opmath_beside":  # or float32: a node that takes half floats takes that too
            return at(1)
        if name == "cast_all":
            found = at(1)
            return Known("list", found.dtypes) if found and found.kind == "dtype" else None
        if name in ("list", "tuple", "reversed") and at(0) is not None:
            return at(0)
        return None

    def given(self, dtype: Known | None, value: Known | None, name: str) -> Known | None:
        if dtype is not None and dtype.kind == "dtype":
            return Known("tensor", dtype.dtypes)
        is_kept = name == "cast" and dtype is not None and dtype.kind == "none"
        return value if is_kept else None

    def onnx(self, node: ast.Call, outputs: int) -> Known | None:
        found = onnx_call(node)
        assert found is not None
        domain, op = found
        values = [self.value(_plain(argument)) for argument in node.args]
        for keyword in node.keywords:
            known = self.value(keyword.value)
            if keyword.arg in ("to", "dtype"):  # what makes tensors of a given dtype
                return Known("tensor", known.dtypes) if known and known.kind == "dtype" else None
            if keyword.arg == "outputs":
                outputs = 1
        if any(isinstance(argument, ast.Starred) for argument in node.args[:-1]):
            return None
        results: list[list[int | None]] = [[] for _ in range(outputs)]
        problems: dict[tuple[str, int | None], list[str]] = {}
        self.nodes += 1
        complete = True
        for world, name in enumerate(self.names):
            operands = tuple(_operand(value, world) for value in values)
            verdict = self.kernels.verdict(domain, op, self.opsets, operands, outputs)
            for place, dtype in enumerate(verdict.outputs):
                results[place].append(dtype)
            if self.live[world]:
                complete = complete and None not in operands
                if verdict.problem is not None:
                    problems.setdefault((verdict.problem, verdict.position), []).append(name)
        self.proven += complete
        self.tell(node, problems)
        parts = tuple(Known("tensor", tuple(each)) for each in results)
        return parts[0] if outputs == 1 else Known("tuple", (), parts)

    def tell(self, node: ast.Call, problems: dict[tuple[str, int | None], list[str]]) -> None:
        """One error an operand: the first problem, and where it and others are."""
        for position in dict.fromkeys(position for _, position in problems):
            here = [each for each in problems if each[1] == position]
            where: ast.AST = node
            if position is not None:
                where = node.args[min(position, len(node.args) - 1)]
            assert self.code is not None
            notes = [f"where {_listed(problems[here[0]])}"]
            if len(here) > 1:
                more = sum(len(problems[each]) for each in here[1:])
                notes.append(f"and so for {more} other choice{'s' * (more > 1)} of dtypes")
            fix = "a case or a cast for it, or leave it out of 'types'"
            self.report(self.code.at(where), here[0][0], notes, fix)


def _plain(node: ast.expr) -> ast.expr:
    return node.value if isinstance(node, ast.Starred) else node


def _operand(value: Known | None, world: int) -> int | None:
    if value is None:
        return None
    if value.kind == "none":
        return 0
    return value.dtypes[world] if value.kind in ("tensor", "list") else None


def _item(value: Known | None, place: int) -> Known | None:
    if value is None:
        return None
    if value.kind == "list":
        return Known("tensor", value.dtypes)
    if value.kind == "tuple":
        return value.parts[place] if -len(value.parts) <= place < len(value.parts) else None
    return None


def _joined(column: Iterable[bool | None], decides: bool) -> bool | None:
    """``or`` (``decides`` True) or ``and`` of what is known."""
    values = list(column)
    if decides in values:
        return decides
    return None if None in values else not decides


def _meet(live: tuple[bool, ...], also: Iterable[bool]) -> tuple[bool, ...]:
    return tuple(a and b for a, b in zip(live, also, strict=True))


def _either(left: Known | None, right: Known | None, truth: Truth) -> Known | None:
    """The value of a ternary: that of the side taken, where that is known, or of both."""
    if left == right or all(each is True for each in truth):
        return left
    if all(each is False for each in truth):
        return right
    if left is None or right is None or "none" in (left.kind, right.kind):
        return None
    if left.kind == right.kind == "tuple" and len(left.parts) == len(right.parts):
        pairs = zip(left.parts, right.parts, strict=True)
        return Known("tuple", (), tuple(_either(a, b, truth) for a, b in pairs))
    if left.kind != right.kind:
        return None
    found: list[Any] = []
    for a, b, taken in zip(left.dtypes, right.dtypes, truth, strict=True):
        found.append((a if a == b else None) if taken is None else a if taken else b)
    return Known(left.kind, tuple(found))


def _listed(names: list[str]) -> str:
    """Worlds of one variable as one list: ``T is int8, int16``."""
    heads = {name.rpartition(" is ")[0] for name in names}
    if len(heads) == 1:
        return f"{heads.pop()} is {', '.join(name.rpartition(' is ')[2] for name in names)}"
    shown = "; ".join(names[:6])
    return shown + (f" and {len(names) - 6} more" if len(names) > 6 else "")


# -- dtypes of words ------------------------------------------------------------------------------

_INT64 = frozenset({dtypes.int64})
# Besides `SAME` and `FIXED`: the argument whose dtype the result has.
_LIKE = {
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
_ALWAYS = {
    **dict.fromkeys(("run_ids", "run_lengths"), _INT64),
    **dict.fromkeys(("c_truth", "run_starts"), narrowing.BOOLEAN),
}


def word_dtypes(word: vocabulary.Word, given: Mapping[str, Value]) -> frozenset[int] | None:
    """The dtypes that a result of the word may have, or of which it is one; None: nothing known."""
    if word.name in _ALWAYS:
        return _ALWAYS[word.name]
    if word.name in FIXED:
        return frozenset({FIXED[word.name]})
    if word.name in ("opmath", "opmath_dtype"):
        return _widened(given.get("x", given.get("dtype")))
    if word.name == "opmath_beside":
        told = given.get("dtype")
        wide = _widened(told)
        return wide | told.dtypes if told is not None and told.dtypes and wide else None
    name = _LIKE.get(word.name, "")
    if word.name in SAME:
        name = word.parameters[SAME[word.name]].name
    like = given.get(name)
    if like is not None:
        return like.dtypes
    told = given.get("dtype")
    if told is not None and told.kind.base in (kinds.DTYPE, kinds.INT):
        return told.dtypes
    return None


def _widened(value: Value | None) -> frozenset[int]:
    """The dtype in which torch computes half floats is float32."""
    found = narrowing.ALL if value is None or value.dtypes is None else value.dtypes
    return (found - HALVES) | {dtypes.float32} if found & HALVES else found
