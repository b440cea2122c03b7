"""Products of several tensors: einsum and groups of rows. The product of two matrices is in
`prelude.matrices`.
"""

from __future__ import annotations

import string
from typing import Any

from ortable import dims, dtypes
from ortable.errors import UnsupportedCase
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
    """A bool mask [groups, size] of the rows of each group; ``ends`` are the ends of the groups, as
    in torch's grouped matrix product.
    """
    op = OpBuilder(graph)
    last = cast(graph, ends, dtypes.int64)
    zero = consts(graph, [0], dtypes.int64)
    before = op.Slice(last, zero, consts(graph, [-1], dtypes.int64))
    first = op.Concat(zero, before, axis=0)
    indices = iota(graph, 0, size, 1)
    behind = op.GreaterOrEqual(indices, unsqueezed(graph, first, [1]))
    ahead = op.Less(indices, unsqueezed(graph, last, [1]))
    return op.And(behind, ahead)


def einsum_equation(graph: Graph, equation: Str, ranks: Ints) -> Str:
    """torch's equation with an explicit right side; torch sorts the letters of an implicit one,
    upper case first.

    Raises:
        UnsupportedCase: an operand has no subscripts for its dimensions.
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
    hidden = {
        rank - len(term.replace("...", ""))
        for term, rank in zip(terms, ranks, strict=True)
        if "..." in term
    }
    if len(hidden) <= 1:
        return ",".join(terms) + "->" + right
    return _without_ellipsis(terms, ranks, right)


def einsum_dtype(graph: Graph, equation: Str, tensors: Results) -> Dtype:
    """The dtype of an einsum: int64 for ints when torch sums subscripts of one operand alone, as
    its ``sum`` does; otherwise that of the operands.
    """
    own = graph.get_type(tensors[0])
    text = einsum_equation(graph, equation, [rank_of(graph, x) for x in tensors])
    left, _, right = text.partition("->")
    alone = [x for x in set(left) - {".", ","} if x not in right and _terms_with(left, x) == 1]
    is_int = not (dtypes.is_float_type(own) or dtypes.is_complex_type(own))
    return dtypes.int64 if is_int and alone else own


def trilinear_product(graph: Graph, xs: Results, expands: Any, sumdim: Ints) -> Result:
    """aten::_trilinear: the product of three results with new axes of size 1 each, summed over
    axes: an Einsum, unless a size of 1 is broadcast."""
    count = rank_of(graph, xs[0]) + len(expands[0])
    axes = [[axis for axis in range(count) if axis not in expand] for expand in expands]
    sizes: dict[int, SymInt] = {}
    for x, present in zip(xs, axes, strict=True):
        for axis, size in zip(present, shape_of(graph, x), strict=True):
            if not dims.always_equal(sizes.setdefault(axis, size), size):
                wide = [unsqueezed(graph, x, expand) for x, expand in zip(xs, expands, strict=True)]
                pair = graph.make_node("Mul", wide[:2])
                return summed_over(graph, OpBuilder(graph).Mul(pair, wide[2]), sumdim, False)
    terms = ["".join(string.ascii_lowercase[axis] for axis in present) for present in axes]
    right = "".join(string.ascii_lowercase[axis] for axis in sorted(sizes) if axis not in sumdim)
    return einsum_product(graph, xs, ",".join(terms) + "->" + right)


def _terms_with(left: str, letter: str) -> int:
    return sum(letter in term for term in left.split(","))


def einsum_product(graph: Graph, tensors: Results, equation: Str) -> Result:
    """Einsum, after summing subscripts that only one operand has: ONNX Runtime's Einsum sums these
    one by one, and ints in double. Its products of two operands are exact for ints.
    """
    left, _, right = equation.partition("->")
    terms, xs = left.split(","), list(tensors)
    nothing = any(0 in shape_of(graph, x) for x in xs)
    if "..." in equation and (nothing or "..." not in right):
        text = _without_ellipsis(terms, [rank_of(graph, x) for x in xs], right)
        left, _, right = text.partition("->")
        terms = left.split(",")
    if nothing:
        return _empty_einsum(graph, xs, terms, right)
    dropped: list[list[str]] = [[] for _ in terms]
    for letter in sorted(set("".join(terms)) - set(right) - {"."}):
        indices = [index for index, term in enumerate(terms) if letter in term]
        wide = [at for at in indices if not _is_one(graph, xs[at], terms[at], letter)]
        for index in indices if len(wide) <= 1 else []:
            dropped[index].append(letter)
    for index, letters in enumerate(dropped):
        xs[index], terms[index] = _sum_subscripts(graph, xs[index], terms[index], letters)
    if len(xs) == 1 and terms[0] == right:
        return xs[0]
    return graph.make_node("Einsum", xs, equation=",".join(terms) + "->" + right)


def _empty_einsum(graph: Graph, xs: Results, terms: list[str], right: str) -> Result:
    """The zeros of an einsum over tensors without elements, for which Einsum ends the process."""
    sizes: dict[str, SymInt] = {}
    for x, term in zip(xs, terms, strict=True):
        for letter, size in zip(term, shape_of(graph, x), strict=True):
            if sizes.get(letter, 1) == 1:
                sizes[letter] = size
    return zeros_of(graph, [sizes[letter] for letter in right], graph.get_type(xs[0]))


def _letter_axis(graph: Graph, x: str, term: str, letter: str) -> int:
    """The axis of a subscript of ``x``, where an ellipsis stands for any number of axes."""
    before, dots, _ = term.partition("...")
    at = term.index(letter)
    return at if not dots or at < len(before) else at - len(term) + rank_of(graph, x)


def _is_one(graph: Graph, x: str, term: str, letter: str) -> bool:
    return dims.always_equal(dim_of(graph, x, _letter_axis(graph, x, term, letter)), 1)


def _sum_subscripts(graph: Graph, x: str, term: str, letters: list[str]) -> tuple[str, str]:
    """Sum an operand over some subscripts; returns it with the remaining ones. A subscript that
    occurs twice is its diagonal.
    """
    for letter in letters:
        if term.count(letter) > 1:
            once = letter + term.replace(letter, "")
            x, term = OpBuilder(graph).Einsum(x, equation=f"{term}->{once}"), once
    axes = sorted(_letter_axis(graph, x, term, letter) for letter in letters)
    left = "".join(letter for letter in term if letter not in letters)
    return summed_over(graph, x, axes, False), left


def _without_ellipsis(terms: list[str], ranks: Ints, right: str) -> str:
    """Ellipses of different lengths broadcast from the right in torch; ONNX wants one length, so
    they get letters."""
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
    """Round a number as a kernel does that takes numbers in the dtype of its tensors: to a 16-bit
    float where ``dtype`` is one; 1e-8 is 0 in float16. Numbers known only at run time and complex
    ones are returned.
    """
    half = dtype in (dtypes.float16, dtypes.bfloat16)
    return float(dtypes.as_array(value, dtype)) if half and type(value) in (int, float) else value
