"""Merged matchers of random steps match exactly if the steps of some alternative match."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any, NamedTuple
from zlib import crc32

from hypothesis import given, settings
from hypothesis import strategies as st

from ortablegen.rewrites.automaton import Automaton, Step

NAMES = ("x", "y", "kind")  # bound by some alternatives, returned by all


class Match(NamedTuple):
    nodes: tuple[Any, ...]
    values: tuple[Any, ...]


class Matcher:
    """A matcher whose conditions depend on a fixed list of bits."""

    def __init__(self, bits: Sequence[bool]) -> None:
        self.bits = bits
        self.reasons: list[str] = []

    def refuse(self, why: str) -> None:
        self.reasons.append(why)

    def ask(self, number: int, value: Any) -> bool:
        return self.bits[crc32(repr((number, value)).encode()) % len(self.bits)]

    def make(self, number: int, value: Any) -> Any:
        return (number, value)

    def orders(self, value: Any) -> list[Any]:
        return [("first", value), ("second", value)]


@st.composite
def alternatives(draw: st.DrawFn) -> list[list[Step]]:
    """Draw alternatives that differ in up to four positions, as patterns with optional parts do."""
    part = st.lists(st.integers(0, 11), max_size=3)
    positions = draw(st.lists(st.lists(part, min_size=1, max_size=3), min_size=1, max_size=4))
    loops = draw(st.booleans())
    return [
        _make_steps([c for codes in choice for c in codes], loops) for choice in product(*positions)
    ][:16]


def _make_steps(codes: list[int], loops: bool) -> list[Step]:
    steps: list[Step] = []
    nodes = ["root"]
    unbound = list(NAMES)
    for code in codes:
        kind, number = divmod(code, 3)
        last_node = nodes[-1]
        node = f"n{len(nodes)}"
        if kind == 0:
            steps.append(Step("fail_if", f"m.ask({number}, {last_node})", "told" if number else ""))
        elif kind == 1:
            steps.append(Step("do", f"{node} = m.make({number}, {last_node})"))
            nodes.append(node)
        elif kind == 2 and loops:
            steps.append(Step("loop", f"for {node} in m.orders({last_node}):"))
            nodes.append(node)
        elif unbound:
            name = unbound.pop(number % len(unbound))
            steps.append(Step("do", f"{name} = m.make({number}, {last_node})"))
    return [*steps, Step("return", f"({', '.join(NAMES)})", nodes=tuple(nodes))]


def find_all(steps: Sequence[Step], m: Matcher, names: dict[str, Any]) -> Iterator[Match]:
    """Yield all matches of one alternative."""
    if not steps:
        return
    step, *rest = steps
    scope = {"m": m, **dict.fromkeys(NAMES), **names}
    if step.kind == "return":
        yield Match(tuple(names[n] for n in step.nodes), eval(step.text, scope))
    elif step.kind == "fail_if":
        if not eval(step.text, scope):
            yield from find_all(rest, m, names)
    elif step.kind == "do":
        name, _, value = step.text.partition(" = ")
        yield from find_all(rest, m, {**names, name: eval(value, scope)})
    else:
        name, _, values = step.text.removeprefix("for ").removesuffix(":").partition(" in ")
        for value in eval(values, scope):
            yield from find_all(rest, m, {**names, name: value})


def _match_merged(
    steps: list[list[Step]], names: Sequence[str], bits: Sequence[bool]
) -> Match | None:
    automaton = Automaton({"match": steps}, "tried", "m", "root", names)
    text = "\n".join("\n".join(lines) for lines in automaton.function_lines('"""The pattern."""'))
    scope: dict[str, Any] = {"Match": lambda nodes, values: Match(nodes, values)}
    exec("from __future__ import annotations\n" + text, scope)
    match: Match | None = scope["match"](Matcher(bits), "root")
    return match


@given(alternatives(), st.lists(st.booleans(), min_size=7, max_size=7))
@settings(max_examples=500, deadline=None)
def test_merged_matchers_find_what_an_alternative_finds(
    alternative_steps: list[list[Step]], bits: list[bool]
) -> None:
    merged = _match_merged(alternative_steps, NAMES, bits)
    expected = [
        match
        for alternative in alternative_steps
        for match in find_all(alternative, Matcher(bits), {"root": "root"})
    ]
    # any of several matches is valid: merging hoists common prefixes and loops over orders
    assert (merged in expected) if expected else merged is None


def test_a_part_that_several_alternatives_have_is_written_once() -> None:
    shared = [
        Step("fail_if", "m.ask(1, {})"),
        Step("do", "x = m.make(1, {})"),
        Step("fail_if", "m.ask(2, x)"),
    ]
    steps = []
    for count in range(4):
        last_node = f"n{count}" if count else "root"
        first = [
            Step("do", f"n{i + 1} = m.make({count}, {f'n{i}' if i else 'root'})")
            for i in range(count)
        ]
        tail = [Step(step.kind, step.text.format(last_node)) for step in shared]
        nodes = ("root", *(f"n{i + 1}" for i in range(count)))
        steps.append([*first, *tail, Step("return", "(x,)", nodes=nodes)])
    texts = Automaton({"match": steps}, "tried", "m", "root", ("x",)).function_lines(
        '"""The pattern."""'
    )
    assert len(texts) == 2
    assert sum(line.strip() == "x = m.make(1, root)" for line in texts[0]) == 1


def test_a_name_that_another_alternative_has_bound_is_none() -> None:
    """An alternative that fails may bind a name that the next one reads in a shared part."""
    steps = []
    for number in (0, 1):
        bind = [Step("do", "kind = m.make(2, n1)"), Step("fail_if", "kind is not None")]
        for optional in (bind, []):
            first = [Step("do", f"n1 = m.make({number}, root)"), *optional]
            last = [Step("do", "x = m.make(1, n1)"), Step("fail_if", "x == root")]
            steps.append([*first, *last, Step("return", "(x, kind)", nodes=("root", "n1"))])
    match = _match_merged(steps, ("x", "kind"), [False])
    assert match is not None and match.values == ((1, (0, "root")), None)
