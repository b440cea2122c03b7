"""Lower products of several tensors: einsum and groups of rows.

`prelude.matrices` has the product of two matrices.
"""

from __future__ import annotations

import functools
import string
from typing import Any

from ortable import dims, dtypes
from ortable.errors import UnsupportedCase
from ortable.inference import promote_types
from ortable.ir import Graph
from ortable.prelude.facts import (
    Dtype,
    Ints,
    Result,
    Results,
    Scalar,
    Str,
    SymInt,
    dim_of,
    rank_of,
    shape_of,
)
from ortable.prelude.op_builder import OpBuilder
from ortable.prelude.shapes import iota, zeros_of
from ortable.prelude.sums import summed_over
from ortable.prelude.values import cast, consts, unsqueezed

__all__ = [
    "einsum_dtype",
    "einsum_equation",
    "einsum_product",
    "in_group",
    "rounded_to",
    "trilinear_product",
]


def in_group(graph: Graph, ends: Result, size: SymInt) -> Result:
    """Return a bool mask [groups, size] of each group's rows: ends [2, 5] are rows 0-1 and 2-4."""
    op = OpBuilder(graph)
    group_ends = cast(graph, ends, dtypes.int64)
    zero = consts(graph, [0], dtypes.int64)
    previous_ends = op.Slice(group_ends, zero, consts(graph, [-1], dtypes.int64))
    group_begins = op.Concat(zero, previous_ends, axis=0)
    indices = iota(graph, 0, size, 1)
    after_begin = op.GreaterOrEqual(indices, unsqueezed(graph, group_begins, [1]))
    before_end = op.Less(indices, unsqueezed(graph, group_ends, [1]))
    return op.And(after_begin, before_end)


def einsum_equation(graph: Graph, equation: Str, ranks: Ints) -> Str:
    """Return torch's equation with an explicit right side: the sorted letters that occur once.

    Ellipses of different lengths become letters. For example, "kj,ji" gives "kj,ji->ik".
    """
    text = equation.replace(" ", "")
    left, arrow, right = text.partition("->")
    terms = left.split(",")
    if len(terms) != len(ranks):
        raise UnsupportedCase(
            f"einsum '{equation}' names {len(terms)} operands, {len(ranks)} are given"
        )
    if not arrow:
        letters = left.replace(".", "").replace(",", "")
        right = ("..." if "..." in left else "") + "".join(
            letter for letter in sorted(set(letters)) if letters.count(letter) == 1
        )
    ellipsis_ranks = {
        rank - len(term.replace("...", ""))
        for term, rank in zip(terms, ranks, strict=True)
        if "..." in term
    }
    if len(ellipsis_ranks) <= 1:
        return ",".join(terms) + "->" + right
    return _replace_ellipses(terms, ranks, right)


def einsum_dtype(graph: Graph, equation: Str, tensors: Results) -> Dtype:
    """Return the dtype of an einsum: that of the operands, promoted, except for some sums of ints.

    Ints are int64 where torch sums them over a subscript that only their operand has: it calls its
    ``sum``.
    """
    text = einsum_equation(graph, equation, [rank_of(graph, x) for x in tensors])
    left, _, right = text.partition("->")
    operand_dtypes = []
    for x, term in zip(tensors, left.split(","), strict=True):
        dtype = graph.get_type(x)
        is_int = not (dtypes.is_float_type(dtype) or dtypes.is_complex_type(dtype))
        own_letters = [
            c for c in set(term) - {"."} if c not in right and _count_terms(left, c) == 1
        ]
        operand_dtypes.append(dtypes.int64 if is_int and own_letters else dtype)
    return functools.reduce(lambda a, b: promote_types(a, b) or a, operand_dtypes)


def trilinear_product(graph: Graph, xs: Results, expands: Any, sumdim: Ints) -> Result:
    """Lower aten::_trilinear: the product of three expanded results, summed over ``sumdim``.

    ``expands`` holds, for each result, the new axes of size 1. The lowering makes an Einsum, unless
    the remaining sizes may need broadcasting.

    Raises:
        UnsupportedCase: two sizes of an axis differ; torch reads the first rows of that it unrolls.
    """
    rank = rank_of(graph, xs[0]) + len(expands[0])
    axes = [[axis for axis in range(rank) if axis not in expand] for expand in expands]
    sizes: dict[int, SymInt] = {}
    for x, present in zip(xs, axes, strict=True):
        for axis, size in zip(present, shape_of(graph, x), strict=True):
            earlier = sizes.setdefault(axis, size)
            if dims.always_differ(earlier, size) and 1 not in (earlier, size):
                raise UnsupportedCase(f"sizes {earlier} and {size} of one axis")
            if not dims.always_equal(earlier, size):
                operands = [
                    unsqueezed(graph, x, expand) for x, expand in zip(xs, expands, strict=True)
                ]
                pair = graph.make_node("Mul", operands[:2])
                return summed_over(graph, OpBuilder(graph).Mul(pair, operands[2]), sumdim, False)
    terms = ["".join(string.ascii_lowercase[axis] for axis in present) for present in axes]
    right = "".join(string.ascii_lowercase[axis] for axis in sorted(sizes) if axis not in sumdim)
    return einsum_product(graph, xs, ",".join(terms) + "->" + right)


def _count_terms(left: str, letter: str) -> int:
    return sum(letter in term for term in left.split(","))


def einsum_product(graph: Graph, tensors: Results, equation: Str) -> Result:
    """Make an Einsum after summing the subscripts that only one operand has, except for size 1.

    ONNX Runtime's Einsum would add their elements one by one, and ints in double. Its products of
    two operands are exact for ints.
    """
    left, _, right = equation.partition("->")
    terms, xs = left.split(","), list(tensors)
    is_empty = any(0 in shape_of(graph, x) for x in xs)
    if "..." in equation and (is_empty or "..." not in right):
        text = _replace_ellipses(terms, [rank_of(graph, x) for x in xs], right)
        left, _, right = text.partition("->")
        terms = left.split(",")
    if is_empty:
        return _empty_einsum(graph, xs, terms, right)
    summed_letters: list[list[str]] = [[] for _ in terms]
    for letter in sorted(set("".join(terms)) - set(right) - {"."}):
        indices = [index for index, term in enumerate(terms) if letter in term]
        non_unit = [i for i in indices if not _is_size_one(graph, xs[i], terms[i], letter)]
        for index in indices if len(non_unit) <= 1 else []:
            summed_letters[index].append(letter)
    for index, letters in enumerate(summed_letters):
        xs[index], terms[index] = _sum_subscripts(graph, xs[index], terms[index], letters)
    if len(xs) == 1 and terms[0] == right:
        return xs[0]
    return graph.make_node("Einsum", xs, equation=",".join(terms) + "->" + right)


def _empty_einsum(graph: Graph, xs: Results, terms: list[str], right: str) -> Result:
    """Return the zeros of an einsum over empty tensors, for which Einsum crashes the process."""
    sizes: dict[str, SymInt] = {}
    for x, term in zip(xs, terms, strict=True):
        for letter, size in zip(term, shape_of(graph, x), strict=True):
            if sizes.get(letter, 1) == 1:
                sizes[letter] = size
    return zeros_of(graph, [sizes[letter] for letter in right], graph.get_type(xs[0]))


def _letter_axis(graph: Graph, x: str, term: str, letter: str) -> int:
    """Return the axis of a subscript of ``x``, where an ellipsis stands for any number of axes."""
    before, dots, _ = term.partition("...")
    pos = term.index(letter)
    return pos if not dots or pos < len(before) else pos - len(term) + rank_of(graph, x)


def _is_size_one(graph: Graph, x: str, term: str, letter: str) -> bool:
    return dims.always_equal(dim_of(graph, x, _letter_axis(graph, x, term, letter)), 1)


def _sum_subscripts(graph: Graph, x: str, term: str, letters: list[str]) -> tuple[str, str]:
    """Sum an operand over some subscripts; return it with the remaining ones.

    A subscript that occurs twice selects the diagonal.
    """
    for letter in letters:
        if term.count(letter) > 1:
            diagonal_term = letter + term.replace(letter, "")
            x, term = OpBuilder(graph).Einsum(x, equation=f"{term}->{diagonal_term}"), diagonal_term
    axes = sorted(_letter_axis(graph, x, term, letter) for letter in letters)
    remaining = "".join(letter for letter in term if letter not in letters)
    return summed_over(graph, x, axes, False), remaining


def _replace_ellipses(terms: list[str], ranks: Ints, right: str) -> str:
    """Replace ellipses by letters: torch broadcasts different lengths, ONNX requires equal ones.

    For example, "...i,...ij->...j" of ranks 2 and 4 gives "bi,abij->abj".
    """
    used = set("".join(terms) + right)
    free = [letter for letter in string.ascii_letters if letter not in used]
    longest = max(
        rank - len(term.replace("...", ""))
        for term, rank in zip(terms, ranks, strict=True)
        if "..." in term
    )
    if longest > len(free):
        raise UnsupportedCase("einsum with more subscripts than letters")
    batch = "".join(free[:longest])
    result = []
    for term, rank in zip(terms, ranks, strict=True):
        length = rank - len(term.replace("...", ""))
        result.append(term.replace("...", batch[longest - length :]))
    return ",".join(result) + "->" + right.replace("...", batch)


def rounded_to(value: Scalar, dtype: Dtype) -> Scalar:
    """Round a number to ``dtype`` if it is a 16-bit float, as kernels round their number arguments.

    For example, 1e-8 is 0 in float16. Complex numbers, and numbers known only at run time, are
    returned unchanged.
    """
    half = dtype in (dtypes.float16, dtypes.bfloat16)
    return float(dtypes.as_array(value, dtype)) if half and type(value) in (int, float) else value
