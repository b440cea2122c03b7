"""Shape rules of matrix products, attention, normalization, recurrent layers, losses and windows.

Sizes may be symbolic; a shape that cannot be proven is unknown.
"""

from __future__ import annotations

from collections.abc import Sequence

from ortable import dims
from ortable.errors import BuilderError

from .shape import Dim, Shape, broadcast, dims_differ, normalize_axis, shape_str


def matmul_shape(a: Shape | None, b: Shape | None) -> Shape | None:
    """Return the shape of MatMul: vectors lose their axis, leading axes broadcast, as in numpy.

    Raises:
        BuilderError: the inner sizes are provably different, or an operand is a scalar.
    """
    if a is None or b is None:
        return None
    if not a or not b:
        raise BuilderError(
            f"MatMul of {shape_str(a)} and {shape_str(b)}: a scalar has no inner axis"
        )
    if dims_differ(a[-1], b[-2] if len(b) > 1 else b[0]):
        raise BuilderError(f"MatMul of {shape_str(a)} and {shape_str(b)}: the inner sizes differ")
    if len(a) > 2 or len(b) > 2:
        batch = broadcast(a[:-2], b[:-2])
        if batch is None:
            return None
    else:
        batch = ()
    return batch + a[-2:-1] + (b[-1:] if len(b) > 1 else ())


def fused_matmul_shape(
    a: Shape | None,
    b: Shape | None,
    trans_a: int,
    trans_b: int,
    trans_batch_a: int,
    trans_batch_b: int,
) -> Shape | None:
    """Return the shape of com.microsoft FusedMatMul, unknown if a batch axis is transposed."""
    if a is None or b is None or trans_batch_a or trans_batch_b or len(a) < 2 or len(b) < 2:
        return None
    left = a[:-2] + (a[-1], a[-2]) if trans_a else a
    right = b[:-2] + (b[-1], b[-2]) if trans_b else b
    return matmul_shape(left, right)


def matmul_nbits_shape(a: Shape | None, n: int) -> Shape | None:
    """Return the shape of com.microsoft MatMulNBits: the last axis has size ``n``."""
    return None if a is None or not a else a[:-1] + (n,)


def gemm_shape(
    a: Shape | None, b: Shape | None, trans_a: int = 0, trans_b: int = 0
) -> Shape | None:
    """Return the shape of Gemm: ``(M, K), (K, N) -> (M, N)``, after transposing the operands.

    Raises:
        BuilderError: an operand is not a matrix, or the inner sizes are provably different.
    """
    if a is None or b is None:
        return None
    if len(a) != 2 or len(b) != 2:
        raise BuilderError(f"Gemm needs two matrices, not {shape_str(a)} and {shape_str(b)}")
    m, k = a if not trans_a else a[::-1]
    inner, n = b if not trans_b else b[::-1]
    if dims_differ(k, inner):
        raise BuilderError(
            f"Gemm of {shape_str(a)} and {shape_str(b)} (transA={trans_a}, transB={trans_b}): "
            "the inner sizes differ"
        )
    return m, n


def einsum_shape(equation: str, shapes: Sequence[Shape | None]) -> Shape | None:
    """Return the shape of Einsum: letters stand for sizes, ``...`` for axes that broadcast.

    Raises:
        BuilderError: a term does not fit its shape, or a letter stands for provably different
            sizes.
    """
    input_terms, arrow, output_term = equation.replace(" ", "").partition("->")
    terms = input_terms.split(",")
    if None in shapes or len(terms) != len(shapes):
        return None
    sizes: dict[str, Dim | None] = {}
    batches: list[Shape] = []
    for term, shape in zip(terms, shapes, strict=True):
        assert shape is not None
        head, dots, tail = term.partition("...")
        if len(head) + len(tail) > len(shape) or (not dots and len(head) != len(shape)):
            raise BuilderError(f"Einsum {equation}: {term} does not fit {shape_str(shape)}")
        if dots:
            batches.append(shape[len(head) : len(shape) - len(tail)])
        letter_sizes = shape[: len(head)] + (shape[len(shape) - len(tail) :] if tail else ())
        for letter, size in zip(head + tail, letter_sizes, strict=True):
            sizes[letter] = _letter_size(equation, letter, sizes.get(letter, size), size)
    if not arrow:
        letters = input_terms.replace(",", "").replace(".", "")
        single_letters = sorted(c for c in set(letters) if letters.count(c) == 1)
        output_term = ("..." if batches else "") + "".join(single_letters)
    batch = broadcast(*batches) if batches else ()
    head, dots, tail = output_term.partition("...")
    result_sizes = [sizes.get(c) for c in head + tail]
    if batch is None or None in result_sizes:
        return None
    named_sizes: Shape = tuple(result_sizes)  # type: ignore[arg-type]
    return named_sizes[: len(head)] + (batch if dots else ()) + named_sizes[len(head) :]


def _letter_size(equation: str, letter: str, previous: Dim | None, size: Dim) -> Dim | None:
    """Return the size of a letter with two sizes: they are equal, or one is 1 and broadcasts."""
    if previous is None or previous is size:
        return previous
    try:
        merged = broadcast((previous,), (size,))
    except BuilderError:
        raise BuilderError(f"Einsum {equation}: {letter} is both {previous} and {size}") from None
    return None if merged is None else merged[0]


def det_shape(x: Shape | None) -> Shape | None:
    """Return the shape of Det, which drops the two matrix axes."""
    return None if x is None else x[:-2]


def norm_stats_shape(x: Shape | None, axis: int) -> Shape | None:
    """Return the shape of the mean of LayerNormalization: the axes from ``axis`` on have size 1."""
    if x is None:
        return None
    axis = normalize_axis(axis, len(x))
    return x[:axis] + (1,) * (len(x) - axis)


def rnn_shape(
    x: Shape | None, r: Shape | None, hidden_size: int | None, direction: str, layout: int
) -> Shape | None:
    """Return the shape of Y of RNN, GRU, LSTM: (seq, directions, batch, hidden) for layout 0."""
    if x is None or len(x) != 3:
        return None
    hidden: Dim | None = hidden_size or (r[-1] if r else None)
    if hidden is None:
        return None
    direction_count = 2 if direction == "bidirectional" else 1
    return (
        (x[0], x[1], direction_count, hidden) if layout else (x[0], direction_count, x[1], hidden)
    )


def rnn_state_shape(
    x: Shape | None, r: Shape | None, hidden_size: int | None, direction: str, layout: int
) -> Shape | None:
    """Return the shape of Y_h and Y_c of RNN, GRU, LSTM: the shape of Y without the sequence."""
    output_shape = rnn_shape(x, r, hidden_size, direction, layout)
    if output_shape is None:
        return None
    return (output_shape[0], output_shape[2], output_shape[3]) if layout else output_shape[1:]


def attention_shape(
    q: Shape | None,
    k: Shape | None,
    v: Shape | None,
    q_num_heads: int | None,
    kv_num_heads: int | None,
) -> Shape | None:
    """Return the shape of Y of Attention: the shape of Q with the head size of V.

    Raises:
        BuilderError: the ranks of Q, K and V differ or are not 3 or 4, or they are 3 and a number
            of heads is missing.
    """
    if q is None or v is None:
        return None
    _check_heads(q, k, v, q_num_heads, kv_num_heads)
    if len(q) == 4:
        return q[:3] + v[3:]
    assert q_num_heads and kv_num_heads
    return q[:2] + (q_num_heads * dims.floor_div(v[2], kv_num_heads),)


def _check_heads(
    q: Shape, k: Shape | None, v: Shape, q_heads: int | None, kv_heads: int | None
) -> None:
    if len(q) not in (3, 4) or len(q) != len(v) or (k is not None and len(k) != len(q)):
        raise BuilderError(
            f"Attention needs Q, K and V of the same rank, 3 or 4, "
            f"not {shape_str(q)}, {shape_str(k)} and {shape_str(v)}"
        )
    if len(q) == 3 and not (q_heads and kv_heads):
        raise BuilderError("Attention with inputs of rank 3 needs q_num_heads and kv_num_heads")


def attention_present_shape(
    new: Shape | None, past: Shape | None, kv_num_heads: int | None
) -> Shape | None:
    """Return the shape of present_key or present_value; ``past`` is () if it is omitted."""
    if new is None or past is None:
        return None
    if len(new) == 3:
        if not kv_num_heads:
            return None
        new = (new[0], kv_num_heads, new[1], dims.floor_div(new[2], kv_num_heads))
    if len(new) != 4:
        return None
    return new[:2] + (new[2] + (past[2] if past else 0), new[3])


def attention_scores_shape(
    q: Shape | None, k: Shape | None, past: Shape | None, q_num_heads: int | None
) -> Shape | None:
    """Return the shape of Attention's qk_matmul_output; ``past`` is () if it is omitted."""
    if q is None or k is None or past is None or len(q) != len(k):
        return None
    past_length = past[2] if past else 0
    if len(q) == 4:
        return q[:3] + (k[2] + past_length,)
    return None if not q_num_heads else (q[0], q_num_heads, q[1], k[1] + past_length)


def ms_multi_head_attention_shape(query: Shape | None, value: Shape | None) -> Shape | None:
    """Return the shape of com.microsoft MultiHeadAttention; unknown for packed Q, K and V."""
    if query is None or value is None or len(query) != 3:
        return None
    if len(value) == 3:
        return query[:2] + value[2:]
    return query[:2] + (value[1] * value[3],) if len(value) == 4 else None


def ms_attention_shape(
    x: Shape | None, weights: Shape | None, qkv_hidden_sizes: Sequence[int] | None
) -> Shape | None:
    """Return the shape of com.microsoft Attention: ``(batch, length, hidden size of v)``."""
    if x is None or len(x) != 3:
        return None
    if qkv_hidden_sizes:
        return x[:2] + (qkv_hidden_sizes[2],)
    return None if weights is None else x[:2] + (dims.floor_div(weights[1], 3),)


def linear_state_shape(
    query: Shape | None, value: Shape | None, q_num_heads: int, kv_num_heads: int
) -> Shape | None:
    """Return the shape of LinearAttention's state: ``(batch, heads, key size, value size)``."""
    if query is None or value is None or len(query) != 3 or len(value) != 3:
        return None
    sizes = dims.floor_div(query[2], q_num_heads), dims.floor_div(value[2], kv_num_heads)
    return (query[0], kv_num_heads, *sizes)


def loss_shape(target: Shape | None, reduction: str) -> Shape | None:
    """Return the shape of NegativeLogLikelihoodLoss and SoftmaxCrossEntropyLoss."""
    return target if reduction == "none" else ()


def window_shape(size: Dim | None) -> Shape | None:
    """Return the shape of HannWindow and the other windows: a vector of ``size``."""
    return None if size is None else (size,)
