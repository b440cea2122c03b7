"""Emit matchers: merge common prefixes and suffixes of the steps of a pattern's alternatives.

Alternatives (choices of `optional` and `any_of`) form a tree by their first steps. Subtrees that
are equal up to names are emitted once, as a function (a minimal acyclic automaton, as for
dictionaries). So the code of a pattern with ten optional nodes has ten parts, not a thousand.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

_MIN_SHARED_STEPS = 3  # fewer steps are repeated, more become a shared function
_MAX_CONDITION_WIDTH = 80
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
            "return" (the arguments of a Match after its nodes).
        text: the code.
        reason: the text that is logged if a condition holds.
        nodes: for a return: the variables of the nodes, the root first.
    """

    kind: str
    text: str
    reason: str = ""
    nodes: tuple[str, ...] = ()

    @cached_property
    def bound_names(self) -> tuple[str, ...]:
        """Names that the step binds for later steps."""
        statement = self._parsed_statement
        if isinstance(statement, ast.Assign):
            return tuple(_target_names(statement.targets))
        return tuple(_target_names([statement.target])) if isinstance(statement, ast.For) else ()

    @cached_property
    def read_names(self) -> frozenset[str]:
        """Names that the step reads."""
        names = (node for node in ast.walk(self._parsed_statement) if isinstance(node, ast.Name))
        return frozenset(node.id for node in names if isinstance(node.ctx, ast.Load))

    @cached_property
    def text_parts(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The kind, the reason and the texts between names; and the names, in order."""
        code = _PREFIX[self.kind].format(self.text)
        names = sorted(
            (node.col_offset, node.id)
            for node in ast.walk(self._parsed_statement)
            if isinstance(node, ast.Name)
        )
        ends = [0, *(offset + len(name) for offset, name in names)]
        between = [code[end:offset] for end, (offset, _) in zip(ends, names, strict=False)]
        texts = (self.kind, self.reason, *between, code[ends[-1] :])
        return texts, tuple(name for _, name in names)

    @cached_property
    def _parsed_statement(self) -> ast.stmt:
        return ast.parse(_PREFIX[self.kind].format(self.text)).body[0]


def _target_names(targets: Iterable[ast.AST]) -> Iterator[str]:
    for target in targets:
        yield from (node.id for node in ast.walk(target) if isinstance(node, ast.Name))


@dataclass(eq=False)
class _State:
    """A state of the automaton: pairs of a step and the next state, first alternative first."""

    edges: list[tuple[Step, _State]] = field(default_factory=list)

    def find_or_add(self, step: Step) -> _State:
        """Return the state after a step; add it if it is missing."""
        for existing, state in self.edges:
            if existing == step:
                return state
        state = _State()
        self.edges.append((step, state))
        return state

    @cached_property
    def single_edges(self) -> list[_State]:
        """A state for each edge; the state itself if it has at most one edge."""
        return [_State([edge]) for edge in self.edges] if len(self.edges) > 1 else [self]

    @cached_property
    def step_count(self) -> int:
        return sum(1 + state.step_count for _, state in self.edges)

    @cached_property
    def bound_names(self) -> frozenset[str]:
        """Names that the steps from here on bind."""
        return frozenset().union(
            *(state.bound_names | set(step.bound_names) for step, state in self.edges)
        )


class Automaton:
    """Emits the functions that match a rewrite: one per root operator, and shared ones.

    Args:
        alternatives: function name -> the steps of each alternative, in the order of the attempts.
        rewrite: the name of the rewrite.
        matcher_name: the name of the first parameter of the functions, the Matcher.
        root: the name of the second parameter, the node at which the match begins.
        names: all names of the rewrite.
    """

    def __init__(
        self,
        alternatives: Mapping[str, Sequence[Sequence[Step]]],
        rewrite: str,
        matcher_name: str,
        root: str,
        names: Iterable[str],
    ) -> None:
        self.rewrite, self.matcher_name, self.root = rewrite, matcher_name, root
        all_steps = [
            step for step_lists in alternatives.values() for steps in step_lists for step in steps
        ]
        self.names = {root, *names, *(name for step in all_steps for name in step.bound_names)} - {
            matcher_name
        }
        self.nodes, self.match_name = (self._fresh_name(name) for name in ("nodes", "found"))
        self.keys: dict[_State, tuple[object, ...]] = {}
        self.free_names: dict[_State, tuple[str, ...]] = {}
        self.key_counts: Counter[tuple[object, ...]] = Counter()
        self.functions: dict[tuple[object, ...], str] = {}
        self.texts: list[list[str]] = []
        self.starts = {name: _State() for name in alternatives}
        for name, step_lists in alternatives.items():
            for steps in step_lists:
                state = self.starts[name]
                for step in steps:
                    state = state.find_or_add(step)
            self._count_states(self.starts[name])

    def function_lines(self, doc: str) -> list[list[str]]:
        """Emit the functions as lists of lines, callees first.

        Args:
            doc: the docstring of the first matcher.
        """
        for name, state in self.starts.items():
            scope = _Scope(frozenset({self.root}), frozenset({self.root}), "")
            body = self._tail_lines(state, 1, "return None", scope, entered=True)
            head = f"def {name}({self.matcher_name}: Matcher, {self.root}: Node) -> Match | None:"
            self.texts.append([head, *([f"    {doc}"] if doc else []), *self._with_graph(body)])
            doc = ""
        return self.texts

    def _fresh_name(self, name: str) -> str:
        while name in self.names:
            name += "_"
        return name

    # -- states that differ only in names ---------------------------------------------------------

    def _count_states(self, state: _State) -> None:
        """Count states by key; skip the successors of a state whose key was counted before."""
        if not state.edges:
            return
        key = self._state_key(state)
        self.key_counts[key] += 1
        if self.key_counts[key] == 1:
            has_one_edge = len(state.edges) == 1
            for following in [state.edges[0][1]] if has_one_edge else state.single_edges:
                self._count_states(following)

    def _is_shared(self, state: _State) -> bool:
        return state.step_count >= _MIN_SHARED_STEPS and self.key_counts[self._state_key(state)] > 1

    def _state_key(self, state: _State) -> tuple[object, ...]:
        """Return the steps from a state on, with numbers in place of names."""
        if state not in self.keys:
            free_names: list[str] = []
            self.keys[state] = tuple(self._walk_state(state, {}, frozenset(), free_names))
            self.free_names[state] = tuple(free_names)
        return self.keys[state]

    def _walk_state(
        self, state: _State, numbers: dict[str, int], bound: frozenset[str], free_names: list[str]
    ) -> Iterator[object]:
        for step, following in state.edges:
            texts, names = step.text_parts
            yield texts
            for name in names:
                if name not in self.names:
                    yield name
                    continue
                if name in step.read_names and name not in bound and name not in free_names:
                    free_names.append(name)
                yield numbers.setdefault(name, len(numbers))
            if step.kind == "return":
                yield tuple(numbers[name] for name in step.nodes if name in bound)
            yield from self._walk_state(
                following, numbers, bound | set(step.bound_names), free_names
            )
        yield "end"

    # -- text ------------------------------------------------------------------------------------

    def _tail_lines(
        self, state: _State, depth: int, fail: str, scope: _Scope, *, entered: bool = False
    ) -> list[str]:
        """Emit a state after which no other is tried; ``fail`` is the statement of a failed test.

        If ``entered``, the lines are the body of the state's own function, not a call of it.
        """
        lines: list[str] = []
        indent = "    " * depth
        while True:
            if not entered and self._is_shared(state):
                return [*lines, *self._call_lines(state, indent, scope, fail == "continue")]
            if len(state.edges) > 1:
                for branch in state.single_edges[:-1]:
                    lines += self._branch_lines(branch, depth, scope)
                state, entered = state.single_edges[-1], False
                if fail == "continue" and state.bound_names & scope.defined:
                    return [*lines, *self._call_lines(state, indent, scope, True)]
                continue
            entered = False
            step, following = self._merge_conditions(state, scope)
            assignments, scope = self._bind_missing(step, indent, scope)
            lines += assignments
            if step.kind == "return":
                return [*lines, f"{indent}return Match({scope.nodes_tuple(step)}, {step.text})"]
            if step.kind == "loop":
                body = self._tail_lines(following, depth + 1, "continue", scope)
                fail_lines = [] if fail == "continue" else [indent + fail]
                return [*lines, indent + step.text, *body, *fail_lines]
            if step.kind == "fail_if":
                refusal = (
                    [f"{indent}    {self.matcher_name}.refuse({step.reason!r})"]
                    if step.reason
                    else []
                )
                lines += [f"{indent}if {step.text}:", *refusal, f"{indent}    {fail}"]
            else:
                lines.append(indent + step.text)
            state = following

    def _branch_lines(self, state: _State, depth: int, scope: _Scope) -> list[str]:
        """Emit a state after which others are tried; a failed test falls through to these."""
        indent = "    " * depth
        # a name bound again here must keep its value for later states and loop iterations
        if self._is_shared(state) or state.bound_names & scope.defined:
            return self._call_lines(state, indent, scope, True)
        if len(state.edges) > 1:
            return [
                line
                for branch in state.single_edges
                for line in self._branch_lines(branch, depth, scope)
            ]
        step, following = self._merge_conditions(state, scope)
        lines, scope = self._bind_missing(step, indent, scope)
        if step.kind == "return":
            return [*lines, f"{indent}return Match({scope.nodes_tuple(step)}, {step.text})"]
        if step.kind == "loop":
            body = self._tail_lines(following, depth + 1, "continue", scope)
            return [*lines, indent + step.text, *body]
        if step.kind == "do":
            return [*lines, indent + step.text, *self._branch_lines(following, depth, scope)]
        inner = self._branch_lines(following, depth + 1, scope)
        if not step.reason:
            return [*lines, f"{indent}if {_opposite_text(step.text)}:", *inner]
        refusal = f"{indent}    {self.matcher_name}.refuse({step.reason!r})"
        return [*lines, f"{indent}if {step.text}:", refusal, f"{indent}else:", *inner]

    def _merge_conditions(self, state: _State, scope: _Scope) -> tuple[Step, _State]:
        """Return the only step of a state and the next state, with conditions merged."""
        ((step, state),) = state.edges
        while step.kind == "fail_if" and not step.reason and len(state.edges) == 1:
            following, next_state = state.edges[0]
            text = f"{step.text} or {following.text}"
            can_merge = (
                following.kind == "fail_if"
                and not following.reason
                and len(text) <= _MAX_CONDITION_WIDTH
            )
            if (
                not can_merge
                or self._is_shared(state)
                or following.read_names & self.names - scope.defined
            ):
                break
            step, state = Step("fail_if", text), next_state
        return step, state

    def _bind_missing(self, step: Step, indent: str, scope: _Scope) -> tuple[list[str], _Scope]:
        """Emit ``None`` assignments for unbound names that the step reads; extend the scope."""
        missing = [
            n for n in step.text_parts[1] if n in self.names & step.read_names - scope.defined
        ]
        lines = [f"{indent}{name} = None" for name in dict.fromkeys(missing)]
        return lines, scope.add_names([*missing, *step.bound_names])

    def _call_lines(self, state: _State, indent: str, scope: _Scope, has_more: bool) -> list[str]:
        """Emit the call of a state's function; ``has_more``: other states are tried after it."""
        key = self._state_key(state)
        if key not in self.functions:
            self._write_function(state)
        values = [name if name in scope.defined else "None" for name in self.free_names[state]]
        arguments = ", ".join(
            [self.matcher_name, scope.nodes_tuple(next(_return_steps(state))), *values]
        )
        call = f"{self.functions[key]}({arguments})"
        if not has_more:
            return [f"{indent}return {call}"]
        return [
            f"{indent}{self.match_name} = {call}",
            f"{indent}if {self.match_name} is not None:",
            f"{indent}    return {self.match_name}",
        ]

    def _write_function(self, state: _State) -> None:
        free_names = self.free_names[state]
        scope = _Scope(frozenset(free_names), frozenset(), self.nodes)
        body = self._tail_lines(state, 1, "return None", scope, entered=True)
        name = f"finish_{self.rewrite}_{len(self.functions) + 1}"
        self.functions[self._state_key(state)] = name
        parameters = [
            f"{self.matcher_name}: Matcher",
            f"{self.nodes}: tuple[Node, ...]",
            *(f"{free_name}: Any" for free_name in free_names),
        ]
        head = f"def {name}({', '.join(parameters)}) -> Match | None:"
        self.texts.append([head, *self._with_graph(body)])

    def _with_graph(self, body: list[str]) -> list[str]:
        uses_graph = any(re.search(r"\bgraph\b", line) for line in body)
        return [f"    graph = {self.matcher_name}.graph", *body] if uses_graph else body


@dataclass(frozen=True)
class _Scope:
    """Names at a position of a function: defined ones, local ones, the nodes parameter or ""."""

    defined: frozenset[str]
    local: frozenset[str]
    outer_nodes: str

    def add_names(self, names: Iterable[str]) -> _Scope:
        added = frozenset(names)
        return replace(self, defined=self.defined | added, local=self.local | added)

    def nodes_tuple(self, step: Step) -> str:
        """Return the text of a tuple of the matched nodes that a return step lists."""
        local_nodes = [name for name in step.nodes if name in self.local]
        if self.outer_nodes and not local_nodes:
            return self.outer_nodes
        parts = [*([f"*{self.outer_nodes}"] if self.outer_nodes else []), *local_nodes]
        return f"({parts[0]},)" if len(parts) == 1 else f"({', '.join(parts)})"


def _return_steps(state: _State) -> Iterator[Step]:
    for step, following in state.edges:
        if step.kind == "return":
            yield step
        yield from _return_steps(following)


def _opposite_text(text: str) -> str:
    """Negate a condition."""
    return ast.unparse(_negate_condition(ast.parse(text, mode="eval").body))


def _negate_condition(node: ast.expr) -> ast.expr:
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return node.operand
    if isinstance(node, ast.BoolOp):
        operator = ast.And() if isinstance(node.op, ast.Or) else ast.Or()
        return ast.BoolOp(operator, [_negate_condition(value) for value in node.values])
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in _OPPOSITES:
        return ast.Compare(node.left, [_OPPOSITES[type(node.ops[0])]()], node.comparators)
    return ast.UnaryOp(ast.Not(), node)
