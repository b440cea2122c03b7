"""The solver of conditions says what it can prove, and nothing else."""

from __future__ import annotations

import ast
import itertools
from typing import Any

import pytest

from ortablegen.language import kinds
from ortablegen.language.kinds import Kind
from ortablegen.language.reach import Finding, Solver

KNOWN = {
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


def findings(*conditions: str) -> list[tuple[int, str]]:
    parsed = [ast.parse(text, mode="eval").body if text else None for text in conditions]
    return [(found.index, found.kind) for found in Solver(KNOWN).find_problems(parsed)]


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
    assert findings(text, "")[:1] == [(0, "never")]


@pytest.mark.parametrize(
    "text", ["n >= 0 or n < 0", "rank_of(x) >= 0", "flag or not flag", "x is not None"]
)
def test_what_always_holds(text: str) -> None:
    assert (0, "always") in findings(text, "")


@pytest.mark.parametrize(
    ("before", "text"),
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
def test_what_an_earlier_condition_takes(before: str, text: str) -> None:
    assert findings(before, text, "") == [(1, "taken")]
    parsed = [ast.parse(each, mode="eval").body for each in (before, text)]
    assert Solver(KNOWN).find_problems([*parsed, None]) == [Finding(1, "taken", 0)]


@pytest.mark.parametrize(
    "texts",
    [
        ("s >= 0", "s < 0", ""),  # neither may be provable
        ("alpha < 1", "alpha >= 1", ""),  # NaN
        ("is_float(x)", "is_int(x)", "is_bool(x)", ""),  # there are other dtypes
        ("dim >= 0", "dim < 0", ""),  # None
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
    assert findings(*texts) == []


def test_cases_that_together_take_everything() -> None:
    assert findings("n >= 0", "n < 0", "") == [(2, "taken")]
    assert findings("flag", "not flag and n == 1", "n != 1", "") == [(3, "taken")]


# -- against all values ---------------------------------------------------------------------------

ATOMS = ("n > 0", "n >= 1", "n == 0", "n != 2", "n < 2", "flag", "m == 1", "n", "n <= -1")
SHAPES = ("{a}", "not {a}", "{a} and {b}", "{a} or {b}", "not ({a} and {b})", "{a} and not {b}")


def _holds(text: str, values: dict[str, Any]) -> bool:
    return bool(eval(text, {}, values))


def test_findings_are_true_of_every_value() -> None:
    """Every finding is right over a grid of values, and none is missed where the grid decides."""
    grid = [
        {"n": n, "m": m, "flag": flag}
        for n, m, flag in itertools.product(range(-3, 5), (0, 1, 2), (False, True))
    ]
    conditions = [
        shape.format(a=a, b=b) for shape in SHAPES for a, b in itertools.permutations(ATOMS, 2)
    ]
    step = 7
    for first, second in itertools.product(conditions[::step], conditions[::11]):
        found = findings(first, second, "")
        one = [_holds(first, values) for values in grid]
        two = [_holds(second, values) for values in grid]
        rest = [not a and not b for a, b in zip(one, two, strict=True)]
        assert ((0, "never") in found) == (not any(one)), first
        assert ((0, "always") in found) == all(one), first
        later = any(b and not a for a, b in zip(one, two, strict=True))
        if any(two) and not all(two):
            assert ((1, "taken") in found) == (not later), (first, second)
        if not all(one) and not all(two) and later:
            assert ((2, "taken") in found) == (not any(rest)), (first, second)
