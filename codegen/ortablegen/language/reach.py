"""Find conditions that never hold, always hold, or are covered by earlier cases.

The solver reports only what it proves. Its facts are intervals of terms that are compared with
numbers, sets of dtypes and strings, None, and the truth of other expressions by their text. It
expands conditions to a disjunctive form of bounded size. A comparison that may be symbolic holds
only if it is provable, so its failure does not imply the opposite comparison.
"""

from __future__ import annotations

import ast
import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ortable import dtypes

from . import kinds, narrowing, vocabulary
from .kinds import Kind
from .parse import called_name, is_call, is_none_literal

_MAX_CONJUNCTIONS = 150  # a larger disjunctive form is not checked
# a test without `and`, `or`, `not`, and whether it is true
Literal = tuple[ast.expr, bool]
_OPPOSITE: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.GtE, ast.LtE: ast.Gt, ast.Gt: ast.LtE, ast.GtE: ast.Lt, ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
}  # fmt: skip
_MIRROR: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.Gt, ast.LtE: ast.GtE, ast.Gt: ast.Lt, ast.GtE: ast.LtE, ast.Eq: ast.Eq,
    ast.NotEq: ast.NotEq,
}  # fmt: skip
_COUNTS = ("rank_of", "len", "dim_of", "count_of")  # never negative


@dataclass(frozen=True)
class Finding:
    """A redundant condition: ``kind`` is "never" (true), "always" (true) or "taken".

    For "taken", ``by`` is the earlier condition that covers it, None if only several together do.
    """

    index: int
    kind: str
    by: int | None = None


@dataclass(frozen=True)
class _Range:
    """The possible numbers of a term."""

    low: float = -math.inf
    high: float = math.inf
    open_low: bool = False
    open_high: bool = False
    without: frozenset[float] = frozenset()

    def restrict(self, operator: type[ast.cmpop], number: float, is_int: bool) -> _Range:
        """Restrict the range by a comparison with ``number``."""
        if operator is ast.NotEq:
            narrowed = replace(self, without=self.without | {number})
        else:
            # of two equal ends, the open one is stricter; the comparison of pairs selects it
            low, open_low, high, closed = self.low, self.open_low, self.high, not self.open_high
            if operator in (ast.Gt, ast.GtE, ast.Eq):
                low, open_low = max((low, open_low), (number, operator is ast.Gt))
            if operator in (ast.Lt, ast.LtE, ast.Eq):
                high, closed = min((high, closed), (number, operator is not ast.Lt))
            narrowed = _Range(low, high, open_low, not closed, self.without)
        return narrowed.tighten_to_ints() if is_int else narrowed

    def tighten_to_ints(self) -> _Range:
        """Move open or excluded ends to the next integer."""
        mirrored = frozenset(-excluded for excluded in self.without)
        low = _first_integer(self.low, self.open_low, self.without, self.high)
        high = -_first_integer(-self.high, self.open_high, mirrored, -low)
        return _Range(low, high, without=self.without)

    @property
    def is_empty(self) -> bool:
        if self.low == self.high:
            return self.open_low or self.open_high or self.low in self.without
        return self.low > self.high

    def satisfies(self, operator: type[ast.cmpop], number: float) -> bool:
        """Whether the comparison with ``number`` holds for all numbers of the range."""
        return self.restrict(_OPPOSITE[operator], number, False).is_empty


def _first_integer(low: float, is_open: bool, without: frozenset[float], high: float) -> float:
    """Return the first integer of the range, a number beyond ``high``, or an infinite ``low``."""
    while low <= high and math.isfinite(low) and (is_open or low in without or low != int(low)):
        low, is_open = float(math.floor(low) + 1), False
    return low


@dataclass
class _Facts:
    """A conjunction of facts about terms, by the text of the term.

    ``unproven`` are comparisons that are not provable. The methods ``add_*`` return False if the
    new fact contradicts the others.
    """

    ranges: dict[str, _Range] = field(default_factory=dict)
    sets: dict[str, frozenset[object]] = field(default_factory=dict)
    barred: dict[str, frozenset[object]] = field(default_factory=dict)
    truths: dict[str, bool] = field(default_factory=dict)
    unproven: tuple[tuple[str, type[ast.cmpop], float], ...] = ()

    def copy(self) -> _Facts:
        return _Facts(
            dict(self.ranges), dict(self.sets), dict(self.barred), dict(self.truths), self.unproven
        )

    def add_truth(self, name: str, truth: bool) -> bool:
        return self.truths.setdefault(name, truth) == truth

    def add_members(self, name: str, values: frozenset[object], is_member: bool) -> bool:
        if is_member:
            self.sets[name] = self.sets.get(name, values) & values
        else:
            self.barred[name] = self.barred.get(name, frozenset()) | values
        members = self.sets.get(name)
        return members is None or bool(members - self.barred.get(name, frozenset()))

    def is_consistent(self) -> bool:
        return not any(
            name in self.ranges and self.ranges[name].satisfies(operator, number)
            for name, operator, number in self.unproven
        )


class Solver:
    """Finds redundant conditions in one list of cases.

    ``kinds_by_name`` are the kinds of names; ``linked`` are the promoted arguments, which have the
    dtype of ``res``; ``bounds`` are the minimum and maximum of ints by name.
    """

    def __init__(
        self,
        kinds_by_name: Mapping[str, Kind],
        linked: Iterable[str] = (),
        bounds: Mapping[str, tuple[int, int]] | None = None,
    ) -> None:
        self.kinds_by_name = kinds_by_name
        self.bounds = bounds or {}
        self.linked = frozenset(linked) | ({"res"} if linked else frozenset())

    def find_problems(self, conditions: Sequence[ast.expr | None]) -> list[Finding]:
        """Find redundant conditions of cases; the first case whose condition holds is taken.

        A condition of None always holds.
        """
        problems: list[Finding] = []
        uncovered: list[_Facts] | None = [_Facts()]
        for index, condition in enumerate(conditions):
            if condition is not None:
                if self.combine_forms([[_Facts()], self.expand_forms(condition, True)]) == []:
                    problems.append(Finding(index, "never"))
                    continue
                if self.combine_forms([[_Facts()], self.expand_forms(condition, False)]) == []:
                    problems.append(Finding(index, "always"))
            holds = self.expand_forms(condition, True) if condition is not None else [[]]
            if uncovered is not None and self.combine_forms([uncovered, holds]) == []:
                problems.append(Finding(index, "taken", self.find_covering_case(conditions, index)))
                continue
            if condition is None:
                uncovered = []
            elif uncovered is not None:
                uncovered = self.combine_forms([uncovered, self.expand_forms(condition, False)])
        return problems

    def find_covering_case(self, conditions: Sequence[ast.expr | None], index: int) -> int | None:
        """Return the index of an earlier condition that alone covers the one at ``index``."""
        condition = conditions[index]
        for earlier_index, earlier in enumerate(conditions[:index]):
            if earlier is None:
                return earlier_index
            parts = [[_Facts()], self.expand_forms(earlier, False)]
            if condition is not None:
                parts.append(self.expand_forms(condition, True))
            if self.combine_forms(parts) == []:
                return earlier_index
        return None

    def combine_forms(self, parts: Sequence[list] | list) -> list[_Facts] | None:
        """Combine each of the facts ``parts[0]`` with one conjunction of every form ``parts[1:]``.

        Returns the combinations without a contradiction, or None if there are too many. An empty
        list proves that the parts exclude each other.
        """
        facts: list[_Facts] = parts[0]
        for forms in parts[1:]:
            if forms is None:
                return None
            if len(facts) * len(forms) > _MAX_CONJUNCTIONS:
                return None
            combined = [
                self.add_literals(conjunction, literals)
                for conjunction in facts
                for literals in forms
            ]
            facts = [conjunction for conjunction in combined if conjunction is not None]
        return facts

    def add_literals(self, facts: _Facts, literals: Sequence[Literal]) -> _Facts | None:
        """Return a copy of the facts with literals added; None if they contradict each other."""
        combined = facts.copy()
        for node, truth in literals:
            if not self.add_literal(combined, node, truth):
                return None
        return combined if combined.is_consistent() else None

    # -- conditions as a disjunction of conjunctions --------------------------------------------

    def expand_forms(self, node: ast.expr, truth: bool) -> list[list[Literal]] | None:
        """Expand a condition (``truth`` False: its negation) to a list of conjunctions of literals.

        ``(a or b) and c`` becomes ``[[a, c], [b, c]]``. Returns None if the list is too long.
        """
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            return self.expand_forms(node.operand, not truth)
        if isinstance(node, ast.Compare) and len(node.ops) > 1:
            sides = [node.left, *node.comparators]
            pairs = [
                ast.Compare(sides[index], [operator], [sides[index + 1]])
                for index, operator in enumerate(node.ops)
            ]
            return self.expand_forms(ast.BoolOp(ast.And(), list(pairs)), truth)
        if not isinstance(node, ast.BoolOp):
            return [[(node, truth)]]
        operand_forms = [self.expand_forms(value, truth) for value in node.values]
        if any(form is None for form in operand_forms):
            return None
        expanded = [form for form in operand_forms if form is not None]
        if isinstance(node.op, ast.Or) == truth:
            return [literals for form in expanded for literals in form]
        if math.prod(len(form) for form in expanded) > _MAX_CONJUNCTIONS:
            return None
        return [list(itertools.chain(*form)) for form in itertools.product(*expanded)]

    # -- one literal ----------------------------------------------------------------------------

    def add_literal(self, facts: _Facts, node: ast.expr, truth: bool) -> bool:
        """Add a literal; return False if it contradicts the facts."""
        if isinstance(node, ast.Constant):
            return bool(node.value) == truth
        if isinstance(node, ast.Compare):
            return self.add_comparison(facts, node, truth)
        if is_call(node, *narrowing.TESTS) and len(node.args) == 1:
            values: frozenset[object] = frozenset(narrowing.TESTS[called_name(node)])
            return facts.add_members(self.dtype_name(node.args[0]), values, truth)
        name = ast.unparse(node)
        kind = self.kind_of(node)
        if truth and not facts.add_truth(f"{name} is None", False):
            return False
        if kind.base in kinds.ELEMENT and not kind.optional:
            length = ast.Call(ast.Name("len", ast.Load()), [node], [])
            return self.add_number(facts, length, ast.Gt if truth else ast.LtE, 0.0, True)
        if kind == Kind(kinds.INT):
            return self.add_number(facts, node, ast.NotEq if truth else ast.Eq, 0.0, True)
        return facts.add_truth(name, truth)

    def add_comparison(self, facts: _Facts, node: ast.Compare, truth: bool) -> bool:
        """Add a comparison; return False if it contradicts the facts."""
        left, operator, right = node.left, node.ops[0], node.comparators[0]
        if isinstance(operator, ast.Is | ast.IsNot):
            if is_none_literal(right):
                is_none = isinstance(operator, ast.Is) == truth
                return self.add_none(facts, left, is_none)
            return facts.add_truth(ast.unparse(node), truth)
        constants = _constant_set(right)
        if constants is not None and isinstance(operator, ast.Eq | ast.NotEq | ast.In | ast.NotIn):
            is_member = isinstance(operator, ast.Eq | ast.In) == truth
            return facts.add_members(self.dtype_name(left), constants, is_member)
        if isinstance(operator, ast.In | ast.NotIn):
            membership = ast.Compare(left, [ast.In()], [right])
            return facts.add_truth(ast.unparse(membership), isinstance(operator, ast.In) == truth)
        number = _number_value(right)
        operator_type = type(operator)
        if number is None and (number := _number_value(left)) is not None:
            left, operator_type = right, _MIRROR[operator_type]
        if number is None:
            return facts.add_truth(ast.unparse(node), truth)
        return self.add_number(facts, left, operator_type, number, truth)

    def add_none(self, facts: _Facts, node: ast.expr, is_none: bool) -> bool:
        """Add whether a term is None; return False if that contradicts the facts."""
        kind = self.kind_of(node)
        if isinstance(node, ast.Name) and kind.base not in (kinds.ANY, kinds.OPAQUE, kinds.NONE):
            if is_none and not kind.optional:
                return False
            if not is_none and kind.base == kinds.NONE:
                return False
        return facts.add_truth(f"{ast.unparse(node)} is None", is_none)

    def add_number(
        self,
        facts: _Facts,
        term: ast.expr,
        operator: type[ast.cmpop],
        number: float,
        truth: bool,
    ) -> bool:
        """Add a comparison with a number; return False if it contradicts the facts."""
        term, shift = _split_shift(term)
        is_int = self.kind_of(term) == Kind(kinds.INT)
        name, number = ast.unparse(term), number - shift
        if not truth:
            if not is_int:
                facts.unproven += ((name, operator, number),)
                return True
            operator = _OPPOSITE[operator]
        start = _Range(*self.bounds.get(name, (-math.inf, math.inf)))
        if is_call(term, *_COUNTS):
            start = _Range(low=0.0)
        facts.ranges[name] = facts.ranges.get(name, start).restrict(operator, number, is_int)
        return not facts.ranges[name].is_empty

    def kind_of(self, node: ast.expr) -> Kind:
        """Return the kind of a name or call; Any for other terms."""
        if isinstance(node, ast.Name):
            return self.kinds_by_name.get(node.id, Kind(kinds.ANY))
        if is_call(node, "len"):
            return Kind(kinds.INT)
        helper = vocabulary.load_prelude().get(called_name(node))
        # the result of `static` is a number or a list, as its argument is
        return helper.result if helper is not None and helper.name != "static" else Kind(kinds.ANY)

    def dtype_name(self, node: ast.expr) -> str:
        """Return the key of facts about the dtype of a result or ``dtype_of(x)``, or a value."""
        if is_call(node, "dtype_of"):
            node = node.args[0] if node.args else node
        elif not (isinstance(node, ast.Name) and self.kind_of(node).base in kinds.GRAPH_KINDS):
            return f"value of {ast.unparse(node)}" if not self.is_res(node) else "dtype of res"
        if isinstance(node, ast.Name) and node.id in self.linked:
            return "dtype of res"
        return "dtype of " + ast.unparse(node).replace("res[0]", "res")

    def is_res(self, node: ast.expr) -> bool:
        """Whether the expression is ``res`` or ``res[0]``, which mean the same."""
        return ast.unparse(node) in ("res", "res[0]")


def _number_value(node: ast.expr) -> float | None:
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        inner = _number_value(node.operand)
        return None if inner is None else -inner
    if isinstance(node, ast.Constant) and type(node.value) in (int, float):
        return float(node.value)  # type: ignore[arg-type]
    return None


def _split_shift(term: ast.expr) -> tuple[ast.expr, float]:
    """Split ``x + 2`` into ``x`` and 2."""
    if isinstance(term, ast.BinOp) and isinstance(term.op, ast.Add | ast.Sub):
        number = _number_value(term.right)
        if number is not None:
            inner, shift = _split_shift(term.left)
            return inner, shift + (number if isinstance(term.op, ast.Add) else -number)
    return term, 0.0


def _constant_set(node: ast.expr) -> frozenset[object] | None:
    """Return the dtypes and strings of a constant, tuple or list; None for other expressions."""
    elements = node.elts if isinstance(node, ast.Tuple | ast.List) else [node]
    values: set[object] = set()
    for element in elements:
        if isinstance(element, ast.Name) and element.id in vocabulary.DTYPES:
            values.add(getattr(dtypes, element.id))
        elif isinstance(element, ast.Constant) and isinstance(element.value, str):
            values.add(element.value)
        else:
            return None
    return frozenset(values)
