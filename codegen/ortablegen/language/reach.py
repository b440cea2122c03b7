"""Find conditions that never hold, always hold, or are taken by the cases before: a small solver
that says only what it can prove.

Known are comparisons of a term with a number (intervals), dtypes (sets), None, strings, and the
truth of any other expression as it is written; ``and``, ``or`` and ``not`` as a disjunction of
conjunctions, up to a bound. A comparison that may be symbolic holds only where it is provable: that
it fails says nothing.
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
from .parse import called, is_call

_MOST = 150  # conjunctions; beyond them nothing is said
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
    """A condition that says less than it seems: ``kind`` is "never", "always", or "taken" by the
    earlier condition at ``by`` (None: by several together)."""

    place: int
    kind: str
    by: int | None = None


@dataclass(frozen=True)
class _Range:
    """The numbers that a term may be, as far as is known."""

    low: float = -math.inf
    high: float = math.inf
    open_low: bool = False
    open_high: bool = False
    without: frozenset[float] = frozenset()

    def narrowed(self, operator: type[ast.cmpop], number: float, whole: bool) -> _Range:
        """The numbers of the range that stand so to ``number``."""
        if operator is ast.NotEq:
            found = replace(self, without=self.without | {number})
        else:
            low, open_low, high, closed = self.low, self.open_low, self.high, not self.open_high
            if operator in (ast.Gt, ast.GtE, ast.Eq):
                low, open_low = max((low, open_low), (number, operator is ast.Gt))
            if operator in (ast.Lt, ast.LtE, ast.Eq):
                high, closed = min((high, closed), (number, operator is not ast.Lt))
            found = _Range(low, high, open_low, not closed, self.without)
        return found.tightened() if whole else found

    def tightened(self) -> _Range:
        """Over whole numbers an open end, or one that is left out, is the next one."""
        mirrored = frozenset(-each for each in self.without)
        low = _first_whole(self.low, self.open_low, self.without, self.high)
        high = -_first_whole(-self.high, self.open_high, mirrored, -low)
        return _Range(low, high, without=self.without)

    @property
    def is_empty(self) -> bool:
        if self.low == self.high:
            return self.open_low or self.open_high or self.low in self.without
        return self.low > self.high

    def lies_in(self, operator: type[ast.cmpop], number: float) -> bool:
        """Whether every number of the range stands so to ``number``."""
        return self.narrowed(_OPPOSITE[operator], number, False).is_empty


def _first_whole(low: float, is_open: bool, without: frozenset[float], high: float) -> float:
    """The first whole number of a range from ``low`` on, or one beyond ``high``."""
    while low <= high and math.isfinite(low) and (is_open or low in without or low != int(low)):
        low, is_open = float(math.floor(low) + 1), False
    return low


@dataclass
class _Facts:
    """A conjunction: what holds of terms; ``unproven`` are comparisons that are not provable."""

    ranges: dict[str, _Range] = field(default_factory=dict)
    sets: dict[str, frozenset[object]] = field(default_factory=dict)
    barred: dict[str, frozenset[object]] = field(default_factory=dict)
    truths: dict[str, bool] = field(default_factory=dict)
    unproven: tuple[tuple[str, type[ast.cmpop], float], ...] = ()

    def copy(self) -> _Facts:
        return _Facts(
            dict(self.ranges), dict(self.sets), dict(self.barred), dict(self.truths), self.unproven
        )

    def say(self, name: str, truth: bool) -> bool:
        return self.truths.setdefault(name, truth) == truth

    def among(self, name: str, values: frozenset[object], inside: bool) -> bool:
        if inside:
            self.sets[name] = self.sets.get(name, values) & values
        else:
            self.barred[name] = self.barred.get(name, frozenset()) | values
        kept = self.sets.get(name)
        return kept is None or bool(kept - self.barred.get(name, frozenset()))

    def is_consistent(self) -> bool:
        return not any(
            name in self.ranges and self.ranges[name].lies_in(operator, number)
            for name, operator, number in self.unproven
        )


class Solver:
    """Answers for one list of cases; ``known`` are the value classes of names, ``linked`` the
    promoted arguments, which have the dtype of ``res``, ``bounds`` the least and the greatest value
    of ints."""

    def __init__(
        self,
        known: Mapping[str, Kind],
        linked: Iterable[str] = (),
        bounds: Mapping[str, tuple[int, int]] | None = None,
    ) -> None:
        self.known = known
        self.bounds = bounds or {}
        self.linked = frozenset(linked) | ({"res"} if linked else frozenset())

    def findings(self, conditions: Sequence[ast.expr | None]) -> list[Finding]:
        """What is wrong with the conditions of cases of which the first that holds is taken; None
        holds always."""
        found: list[Finding] = []
        rest: list[_Facts] | None = [_Facts()]
        for place, condition in enumerate(conditions):
            if condition is not None:
                if self.together([[_Facts()], self.forms(condition, True)]) == []:
                    found.append(Finding(place, "never"))
                    continue
                if self.together([[_Facts()], self.forms(condition, False)]) == []:
                    found.append(Finding(place, "always"))
            holds = self.forms(condition, True) if condition is not None else [[]]
            if rest is not None and self.together([rest, holds]) == []:
                found.append(Finding(place, "taken", self.one_before(conditions, place)))
                continue
            if condition is None:
                rest = []
            elif rest is not None:
                rest = self.together([rest, self.forms(condition, False)])
        return found

    def one_before(self, conditions: Sequence[ast.expr | None], place: int) -> int | None:
        """The earlier condition that by itself holds wherever this one does."""
        here = conditions[place]
        for before, other in enumerate(conditions[:place]):
            if other is None:
                return before
            parts = [[_Facts()], self.forms(other, False)]
            if here is not None:
                parts.append(self.forms(here, True))
            if self.together(parts) == []:
                return before
        return None

    def together(self, parts: Sequence[list] | list) -> list[_Facts] | None:
        """The consistent conjunctions of facts and of forms of conditions; None for too many."""
        facts: list[_Facts] = parts[0]
        for forms in parts[1:]:
            if forms is None:
                return None
            if len(facts) * len(forms) > _MOST:
                return None
            made = [self.joined(each, literals) for each in facts for literals in forms]
            facts = [each for each in made if each is not None]
        return facts

    def joined(self, facts: _Facts, literals: Sequence[Literal]) -> _Facts | None:
        found = facts.copy()
        for node, truth in literals:
            if not self.add(found, node, truth):
                return None
        return found if found.is_consistent() else None

    # -- conditions as a disjunction of conjunctions --------------------------------------------

    def forms(self, node: ast.expr, truth: bool) -> list[list[Literal]] | None:
        """The conjunctions of which one holds where the condition does (``truth``) or fails; None
        for too many."""
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            return self.forms(node.operand, not truth)
        if isinstance(node, ast.Compare) and len(node.ops) > 1:
            sides = [node.left, *node.comparators]
            pairs = [
                ast.Compare(sides[place], [operator], [sides[place + 1]])
                for place, operator in enumerate(node.ops)
            ]
            return self.forms(ast.BoolOp(ast.And(), list(pairs)), truth)
        if not isinstance(node, ast.BoolOp):
            return [[(node, truth)]]
        every = [self.forms(value, truth) for value in node.values]
        if any(each is None for each in every):
            return None
        known = [each for each in every if each is not None]
        if isinstance(node.op, ast.Or) == truth:
            return [literals for each in known for literals in each]
        if math.prod(len(each) for each in known) > _MOST:
            return None
        return [list(itertools.chain(*each)) for each in itertools.product(*known)]

    # -- one literal ----------------------------------------------------------------------------

    def add(self, facts: _Facts, node: ast.expr, truth: bool) -> bool:
        """Add what a literal says; False when it contradicts what is known."""
        if isinstance(node, ast.Constant):
            return bool(node.value) == truth
        if isinstance(node, ast.Compare):
            return self.compare(facts, node, truth)
        if is_call(node, *narrowing.TESTS) and len(node.args) == 1:
            values: frozenset[object] = frozenset(narrowing.TESTS[called(node)])
            return facts.among(self.dtype_name(node.args[0]), values, truth)
        name = ast.unparse(node)
        kind = self.kind(node)
        if truth and not facts.say(f"{name} is None", False):
            return False
        if kind.base in kinds.ELEMENT and not kind.optional:
            sized = ast.Call(ast.Name("len", ast.Load()), [node], [])
            return self.number(facts, sized, ast.Gt if truth else ast.LtE, 0.0, True)
        if kind == Kind(kinds.INT):
            return self.number(facts, node, ast.NotEq if truth else ast.Eq, 0.0, True)
        return facts.say(name, truth)

    def compare(self, facts: _Facts, node: ast.Compare, truth: bool) -> bool:
        left, operator, right = node.left, node.ops[0], node.comparators[0]
        if isinstance(operator, ast.Is | ast.IsNot):
            if isinstance(right, ast.Constant) and right.value is None:
                is_none = isinstance(operator, ast.Is) == truth
                return self.none(facts, left, is_none)
            return facts.say(ast.unparse(node), truth)
        listed = _constants(right)
        if listed is not None and isinstance(operator, ast.Eq | ast.NotEq | ast.In | ast.NotIn):
            inside = isinstance(operator, ast.Eq | ast.In) == truth
            return facts.among(self.dtype_name(left), listed, inside)
        if isinstance(operator, ast.In | ast.NotIn):
            plain = ast.Compare(left, [ast.In()], [right])
            return facts.say(ast.unparse(plain), isinstance(operator, ast.In) == truth)
        number = _number(right)
        kind = type(operator)
        if number is None and (number := _number(left)) is not None:
            left, kind = right, _MIRROR[kind]
        if number is None:
            return facts.say(ast.unparse(node), truth)
        return self.number(facts, left, kind, number, truth)

    def none(self, facts: _Facts, node: ast.expr, is_none: bool) -> bool:
        kind = self.kind(node)
        if isinstance(node, ast.Name) and kind.base not in (kinds.ANY, kinds.OPAQUE, kinds.NONE):
            if is_none and not kind.optional:
                return False
            if not is_none and kind.base == kinds.NONE:
                return False
        return facts.say(f"{ast.unparse(node)} is None", is_none)

    def number(
        self,
        facts: _Facts,
        term: ast.expr,
        operator: type[ast.cmpop],
        number: float,
        truth: bool,
    ) -> bool:
        term, shift = _shifted(term)
        whole = self.kind(term) == Kind(kinds.INT)
        name, number = ast.unparse(term), number - shift
        if not truth:
            if not whole:
                facts.unproven += ((name, operator, number),)
                return True
            operator = _OPPOSITE[operator]
        start = _Range(*self.bounds.get(name, (-math.inf, math.inf)))
        if is_call(term, *_COUNTS):
            start = _Range(low=0.0)
        facts.ranges[name] = facts.ranges.get(name, start).narrowed(operator, number, whole)
        return not facts.ranges[name].is_empty

    def kind(self, node: ast.expr) -> Kind:
        """The value class of a term, where it is plain to see."""
        if isinstance(node, ast.Name):
            return self.known.get(node.id, Kind(kinds.ANY))
        if is_call(node, "len"):
            return Kind(kinds.INT)
        word = vocabulary.prelude().get(called(node))
        # what `static` gives is as its argument: a number or several
        return word.result if word is not None and word.name != "static" else Kind(kinds.ANY)

    def dtype_name(self, node: ast.expr) -> str:
        """Under which name the dtype of an expression, or its value, is kept."""
        if is_call(node, "dtype_of"):
            node = node.args[0] if node.args else node
        elif not (isinstance(node, ast.Name) and self.kind(node).base in kinds.GRAPH_KINDS):
            return f"value of {ast.unparse(node)}" if not self.is_res(node) else "dtype of res"
        if isinstance(node, ast.Name) and node.id in self.linked:
            return "dtype of res"
        return "dtype of " + ast.unparse(node).replace("res[0]", "res")

    def is_res(self, node: ast.expr) -> bool:
        return ast.unparse(node) in ("res", "res[0]")


def _number(node: ast.expr) -> float | None:
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        inner = _number(node.operand)
        return None if inner is None else -inner
    if isinstance(node, ast.Constant) and type(node.value) in (int, float):
        return float(node.value)  # type: ignore[arg-type]
    return None


def _shifted(term: ast.expr) -> tuple[ast.expr, float]:
    """``x + 2`` as ``x`` and 2."""
    if isinstance(term, ast.BinOp) and isinstance(term.op, ast.Add | ast.Sub):
        number = _number(term.right)
        if number is not None:
            inner, more = _shifted(term.left)
            return inner, more + (number if isinstance(term.op, ast.Add) else -number)
    return term, 0.0


def _constants(node: ast.expr) -> frozenset[object] | None:
    """Dtypes or strings, one or several."""
    every = node.elts if isinstance(node, ast.Tuple | ast.List) else [node]
    found: set[object] = set()
    for each in every:
        if isinstance(each, ast.Name) and each.id in vocabulary.DTYPES:
            found.add(getattr(dtypes, each.id))
        elif isinstance(each, ast.Constant) and isinstance(each.value, str):
            found.add(each.value)
        else:
            return None
    return frozenset(found)
