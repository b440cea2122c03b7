"""Arithmetic of dimensions equals Python's, and comparisons hold for all values of symbols."""

from __future__ import annotations

import copy
import pickle

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ortable import dims
from ortable.errors import BuilderError

NAMES = ("a", "b", "c")
A, B, C = (dims.make_symbol(name) for name in NAMES)

# An expression is a nested tuple, so that it can be computed both with dims and with Python ints.
leaves = st.one_of(st.integers(-6, 6), st.sampled_from(NAMES))
expressions = st.recursive(
    leaves,
    lambda children: st.one_of(
        st.tuples(st.sampled_from(["+", "-", "*", "max", "min"]), children, children),
        st.tuples(st.sampled_from(["//", "%", "ceil"]), children, st.integers(-5, 5).filter(bool)),
        st.tuples(st.sampled_from(["//", "%"]), children, children),
    ),
    max_leaves=8,
)
assignments = st.fixed_dictionaries({name: st.integers(0, 9) for name in NAMES})


def compute(expr, leaf):
    if not isinstance(expr, tuple):
        return leaf(expr)
    op, left, right = expr[0], compute(expr[1], leaf), compute(expr[2], leaf)
    if op == "+":
        return left + right
    if op == "-":
        return left - right
    if op == "*":
        return left * right
    if op == "//":
        return left // right
    if op == "%":
        return left % right
    if op == "ceil":
        return (
            -(-left // right)
            if isinstance(left, int) and isinstance(right, int)
            else dims.ceil_div(left, right)
        )
    if isinstance(left, int) and isinstance(right, int):
        return max(left, right) if op == "max" else min(left, right)
    return dims.max_of(left, right) if op == "max" else dims.min_of(left, right)


def to_dim(expr):
    return compute(expr, lambda x: x if isinstance(x, int) else dims.make_symbol(x))


def evaluate(expr, values):
    """Return the value, or None where Python divides by zero."""
    try:
        return compute(expr, lambda x: x if isinstance(x, int) else values[x])
    except ZeroDivisionError:
        return None


def make_dim(expr):
    try:
        return to_dim(expr)
    except (BuilderError, ZeroDivisionError):
        return None  # a division by a constant zero


@settings(max_examples=600, deadline=None)
@given(expressions, assignments)
def test_evaluation_equals_python_arithmetic(expr, values):
    expected, dim = evaluate(expr, values), make_dim(expr)
    if expected is None or dim is None:
        return
    assert dims.evaluate_dim(dim, values) == expected


@settings(max_examples=400, deadline=None)
@given(expressions, expressions, st.lists(assignments, min_size=5, max_size=5))
def test_comparisons_claim_only_what_always_holds(left, right, samples):
    a, b = make_dim(left), make_dim(right)
    if a is None or b is None:
        return
    for values in samples:
        x, y = evaluate(left, values), evaluate(right, values)
        if x is None or y is None:
            continue
        assert not (a < b) or x < y
        assert not (a <= b) or x <= y
        assert not (a > b) or x > y
        assert not (a >= b) or x >= y
        assert not dims.always_differ(a, b) or x != y
        assert not dims.always_equal(a, b) or x == y


polynomials = st.recursive(
    leaves,
    lambda children: st.tuples(st.sampled_from(["+", "-", "*"]), children, children),
    max_leaves=6,
)


@settings(max_examples=300, deadline=None)
@given(polynomials, polynomials, polynomials)
def test_equal_polynomials_are_one_object(p, q, r):
    p, q, r = to_dim(p), to_dim(q), to_dim(r)
    assert dims.always_equal((p + q) * r, r * q + r * p)
    assert dims.always_equal((p - q) * (p + q), p * p - q * q)
    assert dims.always_equal(p - p + q, q)


@settings(max_examples=200, deadline=None)
@given(expressions, expressions, assignments)
def test_substitution_then_evaluation_equals_direct_evaluation(expr, inner, values):
    dim, replacement = make_dim(expr), make_dim(inner)
    x = evaluate(inner, values)
    if dim is None or replacement is None or x is None or x < 0:
        return  # a symbol is at least 0, and its replacement must be, too
    if evaluate(expr, {**values, "a": x}) is None:
        return
    try:
        replaced = dims.substitute_symbols(dim, {"a": replacement})
    except BuilderError:
        return  # the replacement makes a divisor the constant 0
    assert dims.evaluate_dim(replaced, values) == evaluate(expr, {**values, "a": x})


@settings(max_examples=200, deadline=None)
@given(expressions)
def test_pickle_and_copy_keep_identity(expr):
    dim = make_dim(expr)
    if dim is None or isinstance(dim, int):
        return
    assert pickle.loads(pickle.dumps(dim)) is dim
    assert copy.deepcopy([dim])[0] is dim


def test_twice_half_is_not_the_whole():
    assert 2 * (A // 2) is not A
    assert not dims.always_equal(2 * (A // 2), A)
    assert dims.evaluate_dim(2 * (A // 2), {"a": 7}) == 6
    assert 2 * (A // 2) <= A


@pytest.mark.parametrize(
    ("dim", "expected"),
    [
        ((4 * A) // 2, 2 * A),
        (A // 1, A),
        ((2 * A + 1) // 2, A),
        ((A * 6 + 4) // 2, 3 * A + 2),
        ((A // 2) // 3, A // 6),
        ((A + 5) // 2, (A + 1) // 2 + 2),
        (-((-A) // 2), (A + 1) // 2),
        ((4 * A) % 2, 0),
        ((A + 4) % 2, A % 2),
        (A - A, 0),
        ((A + 1) * 2, 2 * A + 2),
        (dims.max_of(A, A + 1), A + 1),
        (dims.min_of(A, 0), 0),
        (dims.max_of(A, 0), A),
        (dims.max_of(A, dims.max_of(B, C)), dims.max_of(C, B, A)),
        ((A % 3) // 3, 0),
    ],
)
def test_sound_simplifications(dim, expected):
    assert dims.always_equal(dim, expected)


def test_a_product_is_divided_only_by_what_cannot_be_zero():
    positive = dims.make_symbol("n", 1)
    assert (A * positive) // positive is A
    assert (A * B) // B is not A
    assert not dims.always_equal((A * B) // B, A)


def test_the_minimum_is_part_of_a_symbol():
    assert dims.make_symbol("n", 1) is not dims.make_symbol("n")
    assert dims.make_symbol("n", 1) > 0
    assert not dims.make_symbol("n") > 0
    assert not dims.make_symbol("u", None) >= 0


def test_equality_is_identity_and_never_equals_an_int():
    assert A + 1 == 1 + A
    assert A != 3
    assert A != B
    assert len({A + B, B + A, A}) == 2


def test_comparisons_that_need_both_bounds_are_proved():
    n = dims.make_symbol("n", 2)
    assert A * n >= A
    assert A + 1 > A
    assert A // 2 <= A
    assert A % 4 < 4
    assert dims.max_of(A, B) >= B
    assert dims.min_of(A, B) <= A
    assert dims.always_differ(2 * A, 2 * B + 1)
    assert dims.always_differ(A, A + 3)
    assert not dims.always_differ(A, B)


@pytest.mark.parametrize(
    ("dim", "text"),
    [
        (2 * A, "2*a"),
        (A + 1, "a + 1"),
        (5 - A, "5 - a"),
        (A - B, "a - b"),
        (-A, "-a"),
        (A // 2, "a//2"),
        (2 * (A // 2), "2*(a//2)"),
        ((A + 1) // 2, "(a + 1)//2"),
        (A % 3, "a%3"),
        (dims.max_of(B, A), "max(a, b)"),
        (dims.min_of(A, 7) + 1, "min(7, a) + 1"),
        (A * B, "a*b"),
        (A * A * B - 3, "a**2*b - 3"),
        ((A // B) // C, "(a//b)//c"),
    ],
)
def test_text_is_readable(dim, text):
    assert str(dim) == text


def test_symbols_and_is_symbol():
    assert dims.free_symbols(A // B + dims.max_of(C, 3)) == {"a", "b", "c"}
    assert dims.free_symbols(4) == frozenset()
    assert dims.is_symbol(A)
    assert not dims.is_symbol(A + 1)
    assert not dims.is_symbol(2 * A)
    assert not dims.is_symbol(A // 2)
    assert not dims.is_symbol(3)


def test_the_truth_of_an_unknown_dimension_is_refused():
    with pytest.raises(BuilderError, match="Whether dimension a is zero is not known"):
        bool(A)
    assert bool(A + 1)


def test_division_by_zero_names_the_dimension():
    with pytest.raises(BuilderError, match=r"\(a \+ 1\)//0"):
        (A + 1) // 0
    with pytest.raises(BuilderError, match=r"\(a\)%0"):
        A % 0


@pytest.mark.parametrize("exponent", [-1, 0.5])
def test_a_dimension_has_only_whole_powers(exponent):
    with pytest.raises(BuilderError, match=r"\(a \+ 1\)\*\*.*: the exponent must be an int"):
        (A + 1) ** exponent


def test_the_largest_of_no_dimension_is_an_error():
    for function, name in ((dims.max_of, "max"), (dims.min_of, "min")):
        with pytest.raises(BuilderError, match=rf"(?i){name}\(\) needs at least one dimension"):
            function()


def test_evaluate_names_the_missing_symbol():
    with pytest.raises(BuilderError, match="No value is given for 'b'"):
        dims.evaluate_dim(A + B, {"a": 1})


def test_foreign_operands_are_refused():
    with pytest.raises(TypeError):
        A + 1.5
    with pytest.raises(TypeError):
        A * "b"


def test_prod():
    assert dims.product_of([]) == 1
    assert dims.product_of([2, A, 3]) is 6 * A
