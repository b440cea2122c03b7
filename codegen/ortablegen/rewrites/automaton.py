"""Matchers as text: the steps of all alternatives of a pattern, merged where they begin alike and
where they end alike.

Alternatives are a tree by their first steps. Of two parts of the tree that are the same but for
names, one is written, as a function that both call (a minimal acyclic automaton, as dictionaries
have it). A pattern with ten places that may be left out so takes ten parts, not a thousand.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

_FEWEST = 3  # steps that are worth a function
_WIDTH = 80  # of a condition
_OPPOSITES: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.NotEq, ast.Is: ast.IsNot, ast.Lt: ast.GtE, ast.LtE: ast.Gt, ast.In: ast.NotIn,
}  # fmt: skip
_OPPOSITES |= {opposite: kind for kind, opposite in _OPPOSITES.items()}
_PREFIX = {"do": "{}", "fail_if": "if {}: pass", "loop": "{} pass", "return": "({},)"}


@dataclass(frozen=True)
class Step:
    """One step of a matcher.

    Attributes:
        kind: "do" (an assignment), "fail_if" (a condition), "loop" (the head of a for loop) or
            "return" (the arguments of a Match behind its nodes).
        text: the code.
        reason: of a condition: what is told when it holds.
        nodes: of a return: variables of the nodes, the root first.
    """

    kind: str
    text: str
    reason: str = ""
    nodes: tuple[str, ...] = ()

    @cached_property
    def binds(self) -> tuple[str, ...]:
        """Names that the step binds for those that follow."""
        statement = self._statement
        if isinstance(statement, ast.Assign):
            return tuple(_names(statement.targets))
        return tuple(_names([statement.target])) if isinstance(statement, ast.For) else ()

    @cached_property
    def reads(self) -> frozenset[str]:
        """Names that the step reads."""
        found = (node for node in ast.walk(self._statement) if isinstance(node, ast.Name))
        return frozenset(node.id for node in found if isinstance(node.ctx, ast.Load))

    @cached_property
    def parts(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The text between names, and the names, in order."""
        code = _PREFIX[self.kind].format(self.text)
        found = sorted(
            (node.col_offset, node.id)
            for node in ast.walk(self._statement)
            if isinstance(node, ast.Name)
        )
        ends = [0, *(at + len(name) for at, name in found)]
        between = [code[end:at] for end, (at, _) in zip(ends, found, strict=False)]
        texts = (self.kind, self.reason, *between, code[ends[-1] :])
        return texts, tuple(name for _, name in found)

    @cached_property
    def _statement(self) -> ast.stmt:
        return ast.parse(_PREFIX[self.kind].format(self.text)).body[0]


def _names(targets: Iterable[ast.AST]) -> Iterator[str]:
    for target in targets:
        yield from (node.id for node in ast.walk(target) if isinstance(node, ast.Name))


@dataclass(eq=False)
class _State:
    """What may follow: steps, each with the state behind it, in the order of the alternatives."""

    ways: list[tuple[Step, _State]] = field(default_factory=list)

    def go(self, step: Step) -> _State:
        """The state behind a step, a new one if there is none."""
        for known, state in self.ways:
            if known == step:
                return state
        state = _State()
        self.ways.append((step, state))
        return state

    @cached_property
    def branches(self) -> list[_State]:
        """States with one way each, itself where it has only one."""
        return [_State([way]) for way in self.ways] if len(self.ways) > 1 else [self]

    @cached_property
    def size(self) -> int:
        return sum(1 + state.size for _, state in self.ways)

    @cached_property
    def binds(self) -> frozenset[str]:
        """Names that the steps from here on bind."""
        return frozenset().union(*(state.binds | set(step.binds) for step, state in self.ways))


class Automaton:
    """The functions that match the alternatives of a rewrite, one for each operator that makes the
    result of some.

    Args:
        alternatives: by the name of the function, the steps of each alternative, in the order in
            which they are tried.
        rewrite: the name of the rewrite.
        m: the name of the first parameter of the functions; ``root``: of the second one.
        names: all names of the rewrite.
    """

    def __init__(
        self,
        alternatives: Mapping[str, Sequence[Sequence[Step]]],
        rewrite: str,
        m: str,
        root: str,
        names: Iterable[str],
    ) -> None:
        self.rewrite, self.m, self.root = rewrite, m, root
        every = [step for several in alternatives.values() for steps in several for step in steps]
        self.names = {root, *names, *(name for step in every for name in step.binds)} - {m}
        self.nodes, self.found = (self._unused(name) for name in ("nodes", "found"))
        self.keys: dict[_State, tuple[object, ...]] = {}
        self.free: dict[_State, tuple[str, ...]] = {}
        self.seen: Counter[tuple[object, ...]] = Counter()
        self.functions: dict[tuple[object, ...], str] = {}
        self.texts: list[list[str]] = []
        self.starts = {name: _State() for name in alternatives}
        for name, several in alternatives.items():
            for steps in several:
                state = self.starts[name]
                for step in steps:
                    state = state.go(step)
            self._count(self.starts[name])

    def lines(self, doc: str) -> list[list[str]]:
        """The functions, line by line, each behind those that it calls; ``doc``: the docstring of
        the first matcher."""
        for name, state in self.starts.items():
            scope = _Scope(frozenset({self.root}), frozenset({self.root}), "")
            body = self._rest(state, 1, "return None", scope, entered=True)
            head = f"def {name}({self.m}: Matcher, {self.root}: Node) -> Match | None:"
            self.texts.append([head, *([f"    {doc}"] if doc else []), *self._with_graph(body)])
            doc = ""
        return self.texts

    def _unused(self, name: str) -> str:
        while name in self.names:
            name += "_"
        return name

    # -- states that are the same but for names ---------------------------------------------------

    def _count(self, state: _State) -> None:
        """Counts states by what they do, those behind a state that was met before not again."""
        if not state.ways:
            return
        key = self._key(state)
        self.seen[key] += 1
        if self.seen[key] == 1:
            one = len(state.ways) == 1
            for following in [state.ways[0][1]] if one else state.branches:
                self._count(following)

    def _is_shared(self, state: _State) -> bool:
        return state.size >= _FEWEST and self.seen[self._key(state)] > 1

    def _key(self, state: _State) -> tuple[object, ...]:
        """What a state does, with numbers in place of names."""
        if state not in self.keys:
            free: list[str] = []
            self.keys[state] = tuple(self._walk(state, {}, frozenset(), free))
            self.free[state] = tuple(free)
        return self.keys[state]

    def _walk(
        self, state: _State, numbers: dict[str, int], bound: frozenset[str], free: list[str]
    ) -> Iterator[object]:
        for step, following in state.ways:
            texts, names = step.parts
            yield texts
            for name in names:
                if name not in self.names:
                    yield name
                    continue
                if name in step.reads and name not in bound and name not in free:
                    free.append(name)
                yield numbers.setdefault(name, len(numbers))
            if step.kind == "return":
                yield tuple(numbers[name] for name in step.nodes if name in bound)
            yield from self._walk(following, numbers, bound | set(step.binds), free)
        yield "end"

    # -- text ------------------------------------------------------------------------------------

    def _rest(
        self, state: _State, depth: int, fail: str, scope: _Scope, *, entered: bool = False
    ) -> list[str]:
        """The lines of a state behind which nothing is tried: at a failure, ``fail`` says what is
        next. ``entered``: they are the body of its function."""
        lines: list[str] = []
        indent = "    " * depth
        while True:
            if not entered and self._is_shared(state):
                return [*lines, *self._call(state, indent, scope, fail == "continue")]
            if len(state.ways) > 1:
                for branch in state.branches[:-1]:
                    lines += self._try(branch, depth, scope)
                state, entered = state.branches[-1], False
                if fail == "continue" and state.binds & scope.known:
                    return [*lines, *self._call(state, indent, scope, True)]
                continue
            entered = False
            step, following = self._join(state, scope)
            before, scope = self._bind(step, indent, scope)
            lines += before
            if step.kind == "return":
                return [*lines, f"{indent}return Match({scope.nodes(step)}, {step.text})"]
            if step.kind == "loop":
                body = self._rest(following, depth + 1, "continue", scope)
                end = [] if fail == "continue" else [indent + fail]
                return [*lines, indent + step.text, *body, *end]
            if step.kind == "fail_if":
                told = [f"{indent}    {self.m}.refuse({step.reason!r})"] if step.reason else []
                lines += [f"{indent}if {step.text}:", *told, f"{indent}    {fail}"]
            else:
                lines.append(indent + step.text)
            state = following

    def _try(self, state: _State, depth: int, scope: _Scope) -> list[str]:
        """The lines of a state behind which another one is tried: a failure falls through."""
        indent = "    " * depth
        # what it binds is no name that those behind it, or the next round of a loop, read as None
        if self._is_shared(state) or state.binds & scope.known:
            return self._call(state, indent, scope, True)
        if len(state.ways) > 1:
            return [line for each in state.branches for line in self._try(each, depth, scope)]
        step, following = self._join(state, scope)
        lines, scope = self._bind(step, indent, scope)
        if step.kind == "return":
            return [*lines, f"{indent}return Match({scope.nodes(step)}, {step.text})"]
        if step.kind == "loop":
            body = self._rest(following, depth + 1, "continue", scope)
            return [*lines, indent + step.text, *body]
        if step.kind == "do":
            return [*lines, indent + step.text, *self._try(following, depth, scope)]
        inner = self._try(following, depth + 1, scope)
        if not step.reason:
            return [*lines, f"{indent}if {_opposite(step.text)}:", *inner]
        told = f"{indent}    {self.m}.refuse({step.reason!r})"
        return [*lines, f"{indent}if {step.text}:", told, f"{indent}else:", *inner]

    def _join(self, state: _State, scope: _Scope) -> tuple[Step, _State]:
        """The only step of a state and what follows it; conditions one after the other as one."""
        ((step, state),) = state.ways
        while step.kind == "fail_if" and not step.reason and len(state.ways) == 1:
            following, behind = state.ways[0]
            text = f"{step.text} or {following.text}"
            plain = following.kind == "fail_if" and not following.reason and len(text) <= _WIDTH
            if not plain or self._is_shared(state) or following.reads & self.names - scope.known:
                break
            step, state = Step("fail_if", text), behind
        return step, state

    def _bind(self, step: Step, indent: str, scope: _Scope) -> tuple[list[str], _Scope]:
        """Lines that give None to names that the step reads and no alternative has bound, and the
        names that are known behind the step."""
        missing = [n for n in step.parts[1] if n in self.names & step.reads - scope.known]
        lines = [f"{indent}{name} = None" for name in dict.fromkeys(missing)]
        return lines, scope.bind([*missing, *step.binds])

    def _call(self, state: _State, indent: str, scope: _Scope, goes_on: bool) -> list[str]:
        """The call of the function of a state; ``goes_on``: others are tried behind it."""
        key = self._key(state)
        if key not in self.functions:
            self._write(state)
        given = [name if name in scope.known else "None" for name in self.free[state]]
        arguments = ", ".join([self.m, scope.nodes(next(_returns(state))), *given])
        call = f"{self.functions[key]}({arguments})"
        if not goes_on:
            return [f"{indent}return {call}"]
        return [
            f"{indent}{self.found} = {call}",
            f"{indent}if {self.found} is not None:",
            f"{indent}    return {self.found}",
        ]

    def _write(self, state: _State) -> None:
        """Writes the function of a state."""
        free = self.free[state]
        scope = _Scope(frozenset(free), frozenset(), self.nodes)
        body = self._rest(state, 1, "return None", scope, entered=True)
        name = f"finish_{self.rewrite}_{len(self.functions) + 1}"
        self.functions[self._key(state)] = name
        parameters = [
            f"{self.m}: Matcher",
            f"{self.nodes}: tuple[Node, ...]",
            *(f"{each}: Any" for each in free),
        ]
        head = f"def {name}({', '.join(parameters)}) -> Match | None:"
        self.texts.append([head, *self._with_graph(body)])

    def _with_graph(self, body: list[str]) -> list[str]:
        used = any(re.search(r"\bgraph\b", line) for line in body)
        return [f"    graph = {self.m}.graph", *body] if used else body


@dataclass(frozen=True)
class _Scope:
    """Names that a function knows at one place, those that it has bound itself, and the name of the
    nodes that it was given."""

    known: frozenset[str]
    own: frozenset[str]
    given: str

    def bind(self, names: Iterable[str]) -> _Scope:
        added = frozenset(names)
        return replace(self, known=self.known | added, own=self.own | added)

    def nodes(self, step: Step) -> str:
        """A tuple of the nodes that are known there, of those of a return."""
        own = [name for name in step.nodes if name in self.own]
        if self.given and not own:
            return self.given
        parts = [*([f"*{self.given}"] if self.given else []), *own]
        return f"({parts[0]},)" if len(parts) == 1 else f"({', '.join(parts)})"


def _returns(state: _State) -> Iterator[Step]:
    for step, following in state.ways:
        if step.kind == "return":
            yield step
        yield from _returns(following)


def _opposite(text: str) -> str:
    """A condition that holds where another one does not."""
    return ast.unparse(_negate(ast.parse(text, mode="eval").body))


def _negate(node: ast.expr) -> ast.expr:
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return node.operand
    if isinstance(node, ast.BoolOp):
        kind = ast.And() if isinstance(node.op, ast.Or) else ast.Or()
        return ast.BoolOp(kind, [_negate(value) for value in node.values])
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in _OPPOSITES:
        return ast.Compare(node.left, [_OPPOSITES[type(node.ops[0])]()], node.comparators)
    return ast.UnaryOp(ast.Not(), node)
