"""Lower-case words of the spec language for products of matrices."""

from __future__ import annotations

from typing import Any

from ortable import dims, dtypes
from ortable.errors import UnsupportedCase
from ortable.inference.shape import broadcast
from ortable.ir import Graph
from ortable.prelude.facts import Ints, Result, Results, Str, SymInt, dim_of, rank_of, shape_of
from ortable.prelude.shapes import counting, zeros_of
from ortable.prelude.sums import summed_over
from ortable.prelude.values import cast, consts, squeezed, unsqueezed

__all__ = ["einsum_equation", "einsum_product", "in_group", "matrix_product", "untransposed"]

_MOST_PRODUCTS = 2**15  # products that one MatMul with a vector may add up, one after the other


def untransposed(graph: Graph, x: Result) -> Any:
    """``[y, 1]`` when ``x`` is a 2-d ``y`` transposed, else ``[x, 0]``: Gemm reads it the other way
    round, so the Transpose is not needed."""
    node = graph.values[x].producer
    if node is None or node.op_type != "Transpose" or list(node.attrs["perm"]) != [1, 0]:
        return [x, 0]
    return [node.inputs[0], 1]


def matrix_product(graph: Graph, a: Result, b: Result) -> Result:
    """MatMul, or Gemm for transposed matrices; the small ints, which ONNX leaves out, go through
    int32, whose low bits are theirs."""
    dtype = graph.get_type(a)
    if dims.same(dim_of(graph, a, -1), 0):
        return _empty_product(graph, a, b)
    if dtypes.is_float_type(dtype) and rank_of(graph, a) == 2 and rank_of(graph, b) == 2:
        (left, turn_left), (right, turn_right) = untransposed(graph, a), untransposed(graph, b)
        if turn_left or turn_right:
            return graph.make_node("Gemm", [left, right], transA=turn_left, transB=turn_right)
    if rank_of(graph, b) == 1 and dtype == dtypes.float32 and _is_long(graph, b):
        return summed_over(
            graph, graph.make_node("Mul", [a, b]), [rank_of(graph, a) - 1], keepdim=False
        )
    if rank_of(graph, b) == 1 and _is_transposed(graph, a):
        # ONNX Runtime fuses the Transpose of ``a`` into the product, which is then wrong for a
        # vector ``b``, though not for a column
        column = matrix_product(graph, a, unsqueezed(graph, b, [1]))
        return squeezed(graph, column, [rank_of(graph, a) - 1])
    if dtype not in (dtypes.int8, dtypes.uint8, dtypes.int16):
        return graph.make_node("MatMul", [a, b])
    wide = graph.make_node("MatMul", [cast(graph, a, dtypes.int32), cast(graph, b, dtypes.int32)])
    return cast(graph, wide, dtype)


def _is_long(graph: Graph, vector: str) -> bool:
    """Whether a product with a vector adds up more than MatMul, which does so one by one, can."""
    count = dim_of(graph, vector, 0)
    return isinstance(count, int) and count > _MOST_PRODUCTS


def _is_transposed(graph: Graph, x: str) -> bool:
    """Whether a result is a Transpose, or a cast or copy of one."""
    node = graph.values[x].producer
    while node is not None and node.op_type in ("Cast", "Identity"):
        node = graph.values[node.inputs[0]].producer
    return node is not None and node.op_type == "Transpose"


def _empty_product(graph: Graph, a: str, b: str) -> str:
    """Zeros: ONNX Runtime leaves what a product over nothing writes as it finds it."""
    first, second = shape_of(graph, a)[:-1], shape_of(graph, b)
    second, last = (second[:-2], second[-1:]) if len(second) > 1 else ((), ())
    rows = first[len(first) - 1 :]
    batch = broadcast(tuple(first[: len(first) - 1]), tuple(second))
    if batch is None:
        raise UnsupportedCase("batches whose common shape depends on which dynamic size is 1")
    return zeros_of(graph, [*batch, *rows, *last], graph.get_type(a))


def in_group(graph: Graph, ends: Result, size: SymInt) -> Result:
    """Which of ``size`` places each group holds: bool (groups, size); ``ends`` are the places
    behind the last of each group, as in torch's grouped matrix product."""
    last = cast(graph, ends, dtypes.int64)
    zero = consts(graph, [0], dtypes.int64)
    before = graph.make_node("Slice", [last, zero, consts(graph, [-1], dtypes.int64)])
    first = graph.make_node("Concat", [zero, before], axis=0)
    places = counting(graph, 0, size, 1)
    behind = graph.make_node("GreaterOrEqual", [places, unsqueezed(graph, first, [1])])
    ahead = graph.make_node("Less", [places, unsqueezed(graph, last, [1])])
    return graph.make_node("And", [behind, ahead])


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


def einsum_product(graph: Graph, tensors: Results, equation: Str) -> Result:
    """Einsum; what it would add up in one operand alone is added up before, since ONNX Runtime does
    that one by one, and of ints in double. Its products of two operands are exact for ints."""
    left, _, right = equation.partition("->")
    terms, xs = left.split(","), list(tensors)
    if "..." in equation and "..." not in right:
        text = _without_ellipsis(terms, [rank_of(graph, x) for x in xs], right)
        terms = text.partition("->")[0].split(",")
    gone: list[list[str]] = [[] for _ in terms]
    for letter in sorted(set("".join(terms)) - set(right) - {"."}):
        places = [place for place, term in enumerate(terms) if letter in term]
        wide = [at for at in places if not _is_one(graph, xs[at], terms[at], letter)]
        for place in places if len(wide) <= 1 else []:
            gone[place].append(letter)
    for place, letters in enumerate(gone):
        xs[place], terms[place] = _added(graph, xs[place], terms[place], letters)
    if len(xs) == 1 and terms[0] == right:
        return xs[0]
    return graph.make_node("Einsum", xs, equation=",".join(terms) + "->" + right)


def _letter_axis(graph: Graph, x: str, term: str, letter: str) -> int:
    """Which axis of ``x`` a subscript is, where an ellipsis stands for any number of them."""
    before, dots, _ = term.partition("...")
    at = term.index(letter)
    return at if not dots or at < len(before) else at - len(term) + rank_of(graph, x)


def _is_one(graph: Graph, x: str, term: str, letter: str) -> bool:
    return dims.same(dim_of(graph, x, _letter_axis(graph, x, term, letter)), 1)


def _added(graph: Graph, x: str, term: str, letters: list[str]) -> tuple[str, str]:
    """An operand with the elements along some subscripts added up, and the subscripts that are
    left; of one that stands there twice, those of the diagonal."""
    for letter in letters:
        if term.count(letter) > 1:
            once = letter + term.replace(letter, "")
            x, term = graph.make_node("Einsum", [x], equation=f"{term}->{once}"), once
    axes = sorted(_letter_axis(graph, x, term, letter) for letter in letters)
    left = "".join(letter for letter in term if letter not in letters)
    return summed_over(graph, x, axes, False), left


def _without_ellipsis(terms: list[str], ranks: Ints, right: str) -> str:
    """Ellipses of different lengths broadcast from the right in torch; ONNX wants one length, so
    they get letters."""
    used = set("".join(terms) + right)
    free = [letter for letter in "abcdefghijklmnopqrstuvwxyz" if letter not in used]
    longest = max(
        rank - len(term.replace("...", ""))
        for term, rank in zip(terms, ranks, strict=True)
        if "..." in term
    )
    if longest > len(free):
        raise UnsupportedCase("einsum with more subscripts than letters")
    batch = "".join(free[:longest])
    found = []
    for term, rank in zip(terms, ranks, strict=True):
        length = rank - len(term.replace("...", ""))
        found.append(term.replace("...", batch[longest - length :]))
    return ",".join(found) + "->" + right.replace("...", batch)
