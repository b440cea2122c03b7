"""The solver reports conditions that provably always or never hold, and no others."""

from __future__ import annotations

import ast
import itertools
from typing import Any

import pytest

from ortablegen.language import kinds
from ortablegen.language.kinds import Kind
from ortablegen.language.reach import Finding, Solver

KINDS = {
    "n": Kind(kinds.INT),
    "m": Kind(kinds.INT),
    "s": Kind(kinds.SYMINT),
    "alpha": Kind(kinds.SCALAR),
    "flag": Kind(kinds.BOOL),
    "dim": Kind(kinds.INT, True),
    "sizes": Kind(kinds.SYMINTS),
    "x": Kind(kinds.RESULT),
    "bias": Kind(kinds.RESULT, True),
}


def find_problems(*conditions: str) -> list[tuple[int, str]]:
    parsed = [ast.parse(text, mode="eval").body if text else None for text in conditions]
    return [(finding.index, finding.kind) for finding in Solver(KINDS).find_problems(parsed)]


@pytest.mark.parametrize(
    "text",
    [
        "n == 2 and n > 3",
        "n > 2 and n < 3",
        "n != 2 and 2 <= n <= 2",
        "not n and n == 1",
        "len(sizes) == 0 and sizes",
        "rank_of(x) < 0",
        "rank_of(x) - 2 == 1 and rank_of(x) == 2",
        "is_float(x) and is_int(x)",
        "dtype_of(x) == float16 and not is_float(x)",
        "x is None",
        "bias is None and bias is not None",
        "flag and not flag",
        "s == 2 and s == 3",
        "alpha == 1 and alpha < 1",
        "s != 2 and not s != 2",
        "s > 5 and not s != 2",
        "s < 2 and not s != 2",
        "alpha > 2 and not alpha != 2",
        "alpha != 2 and alpha != 3 and not alpha != 3",
        "sizes == 'a' and sizes == 'b'",
        "(n > 2 or flag) and not flag and n <= 2",
    ],
)
def test_what_never_holds(text: str) -> None:
    assert find_problems(text, "")[:1] == [(0, "never")]


@pytest.mark.parametrize(
    "text", ["n >= 0 or n < 0", "rank_of(x) >= 0", "flag or not flag", "x is not None"]
)
def test_what_always_holds(text: str) -> None:
    assert (0, "always") in find_problems(text, "")


@pytest.mark.parametrize(
    ("earlier", "text"),
    [
        ("n >= 0", "n > 5"),
        ("n >= 0", "n == 3 and flag"),
        ("s >= 0", "s >= 2"),
        ("alpha < 1", "alpha == 0.5"),
        ("is_float(x)", "dtype_of(x) in (float16, bfloat16)"),
        ("flag or n == 1", "flag and s == 4"),
        ("bias is None", "bias is None and flag"),
        ("n != 1", "n == 2"),
        ("s != 2", "s >= 3"),
        ("s != 2", "s < 2"),
        ("alpha != 2", "alpha == 1"),
        ("alpha != 2", "alpha != 2 and flag"),
    ],
)
def test_what_an_earlier_condition_takes(earlier: str, text: str) -> None:
    assert find_problems(earlier, text, "") == [(1, "taken")]
    parsed = [ast.parse(condition, mode="eval").body for condition in (earlier, text)]
    assert Solver(KINDS).find_problems([*parsed, None]) == [Finding(1, "taken", 0)]


@pytest.mark.parametrize(
    "texts",
    [
        ("s >= 0", "s < 0", ""),  # for a symbolic size, neither may be provable
        ("alpha < 1", "alpha >= 1", ""),  # alpha may be NaN
        ("is_float(x)", "is_int(x)", "is_bool(x)", ""),  # x may have another dtype
        ("dim >= 0", "dim < 0", ""),  # dim may be None
        ("n > 5", "n >= 5", ""),
        ("is_wide(x)", "is_float(x)", ""),
        ("flag and n == 1", "flag", ""),
        ("s == 1", "s != 1", ""),
        ("s != 2", "s >= 2", ""),
        ("s != 2", "s <= 2", ""),
        ("s != 2", "s != 3", ""),
        ("s >= 2 and not s != 2", ""),
        ("alpha != 3 and not alpha != 2", ""),
    ],
)
def test_what_nobody_can_prove(texts: tuple[str, ...]) -> None:
    assert find_problems(*texts) == []


def test_cases_that_together_take_everything() -> None:
    assert find_problems("n >= 0", "n < 0", "") == [(2, "taken")]
    assert find_problems("flag", "not flag and n == 1", "n != 1", "") == [(3, "taken")]


# -- against all values ---------------------------------------------------------------------------

ATOMS = ("n > 0", "n >= 1", "n == 0", "n != 2", "n < 2", "flag", "m == 1", "n", "n <= -1")
SHAPES = ("{a}", "not {a}", "{a} and {b}", "{a} or {b}", "not ({a} and {b})", "{a} and not {b}")


def _holds(text: str, values: dict[str, Any]) -> bool:
    return bool(eval(text, {}, values))


def test_findings_are_true_of_every_value() -> None:
    """Findings agree with an evaluation of the conditions on a grid of values."""
    grid = [
        {"n": n, "m": m, "flag": flag}
        for n, m, flag in itertools.product(range(-3, 5), (0, 1, 2), (False, True))
    ]
    conditions = [
        shape.format(a=a, b=b) for shape in SHAPES for a, b in itertools.permutations(ATOMS, 2)
    ]
    step = 7
    for first, second in itertools.product(conditions[::step], conditions[::11]):
        reported = find_problems(first, second, "")
        first_holds = [_holds(first, values) for values in grid]
        second_holds = [_holds(second, values) for values in grid]
        neither_holds = [not a and not b for a, b in zip(first_holds, second_holds, strict=True)]
        assert ((0, "never") in reported) == (not any(first_holds)), first
        assert ((0, "always") in reported) == all(first_holds), first
        only_second_holds = any(b and not a for a, b in zip(first_holds, second_holds, strict=True))
        if any(second_holds) and not all(second_holds):
            assert ((1, "taken") in reported) == (not only_second_holds), (first, second)
        if not all(first_holds) and not all(second_holds) and only_second_holds:
            assert ((2, "taken") in reported) == (not any(neither_holds)), (first, second)
