"""Matrices: products that are as exact as torch's, triangles and blocks, and the transposes of
linear maps of single axes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ortable import dims, dtypes
from ortable.errors import UnsupportedCase
from ortable.inference.shape import broadcast
from ortable.ir import Graph

from .complex_value import ComplexValue, by_parts
from .facts import Bool, Opaque, Result, SymInt, Tensor, dim_of, rank_of, shape_of
from .op_builder import OpBuilder
from .promotion import opmath_dtype
from .shapes import zeros_of
from .sums import summed_over
from .values import cast, consts, permuted, squeezed, unsqueezed

__all__ = [
    "matrix_product",
    "matrix_transpose",
    "projected",
    "summed_back",
    "triu",
    "untransposed",
]


# -- linear maps of one axis --------------------------------------------------------------------


def summed_back(graph: Graph, grad: Result, weights: Opaque) -> Result:
    """The gradient of linear maps of the last axes, one an axis, in the dtype of ``grad``: a matrix
    [in, out], or for a dynamic size a function of the graph, the gradient and the axis.

    Each element adds up the few elements of ``grad`` that read it. Only those are gathered, so
    that an infinite gradient stays where it belongs.
    """
    own = graph.get_type(grad)
    result = cast(graph, grad, opmath_dtype(own))
    first = rank_of(graph, grad) - len(weights)
    for index, through in enumerate(weights):
        if isinstance(through, np.ndarray):
            result = _apply_axis_map(graph, result, first + index, through)
        else:
            result = through(graph, result, first + index)
    return cast(graph, result, own)


def _apply_axis_map(graph: Graph, x: str, axis: int, matrix: np.ndarray) -> str:
    """``result[i] = sum of matrix[i, o] * x[o]`` along one axis."""
    op = OpBuilder(graph)
    rows, columns = matrix.shape
    if rows == columns and np.array_equal(matrix, np.eye(rows)):
        return x
    rank, nonzero = rank_of(graph, x), matrix != 0
    width = max(int(nonzero.sum(axis=1).max(initial=0)), 1)
    indices = np.full((rows, width), columns, np.int64)
    factors = np.zeros((rows, width), matrix.dtype)
    for row in range(rows):
        used = np.flatnonzero(nonzero[row])
        indices[row, : len(used)], factors[row, : len(used)] = used, matrix[row, used]
    if (indices == columns).any():  # one more element, 0, for rows that read fewer
        amounts = [0] * (2 * rank)
        amounts[rank + axis] = 1
        x = op.Pad(x, consts(graph, amounts, dtypes.int64))
    if width == 1:
        x = op.Gather(x, graph.make_initializer("", indices[:, 0]), axis=axis)
        shape = [rows] + [1] * (rank - axis - 1)
    else:
        x = op.Gather(x, graph.make_initializer("", indices), axis=axis)
        shape = [rows, width] + [1] * (rank - axis - 1)
    if (factors != 1).any():
        factors = factors.astype(dtypes.to_numpy(graph.get_type(x)))
        x = op.Mul(x, graph.make_initializer("", factors.reshape(shape)))
    if width == 1:
        return x
    return op.ReduceSum(x, consts(graph, [axis + 1], dtypes.int64), keepdims=0)


# -- matrices ------------------------------------------------------------------------------------


@by_parts
def matrix_transpose(graph: Graph, x: Tensor) -> Tensor:
    """``x`` with its last two dimensions exchanged."""
    rank = rank_of(graph, x)
    return permuted(graph, x, [*range(rank - 2), rank - 1, rank - 2])


@by_parts
def triu(graph: Graph, x: Tensor, wanted: Bool = True) -> Tensor:
    """The upper triangle of matrices, or the lower one."""
    return OpBuilder(graph).Trilu(x, upper=int(wanted))


def smaller_side(graph: Graph, x: Result) -> SymInt:
    """How many rows or columns matrices have, whichever is less."""
    return dims.min_of(*shape_of(graph, x)[-2:])


def projected(graph: Graph, x: Result, weight: Result, bias: Result | None) -> Result:
    """``x`` times the transposed weight, plus the bias: the linear map of a layer."""
    result = matrix_product(graph, x, permuted(graph, weight, [1, 0]))
    return result if bias is None else OpBuilder(graph).Add(result, bias)


_MAX_PRODUCTS = 2**15  # of more, a single sum is not as exact as torch's


def untransposed(graph: Graph, x: Result) -> Any:
    """``[y, 1]`` when ``x`` is a 2-d ``y`` transposed, else ``[x, 0]``: Gemm can read it
    transposed, so the Transpose is not needed.
    """
    node = graph.values[x].producer
    if node is None or node.op_type != "Transpose" or list(node.attrs["perm"]) != [1, 0]:
        return [x, 0]
    return [node.inputs[0], 1]


def matrix_product(graph: Graph, a: Tensor, b: Tensor) -> Tensor:
    """MatMul, or Gemm for transposed matrices; the small ints, which ONNX leaves out, go through
    int32, whose low bits are theirs. Complex ones are four products."""
    op = OpBuilder(graph)
    if a.__class__ is ComplexValue or b.__class__ is ComplexValue:
        return _complex_product(graph, a, b)
    dtype = graph.get_type(a)
    if any(0 in shape_of(graph, operand) for operand in (a, b)):
        # ONNX Runtime leaves what was in memory, or stops at a matrix without rows times a vector
        return _empty_product(graph, a, b)
    if dtypes.is_float_type(dtype) and rank_of(graph, a) == 2 and rank_of(graph, b) == 2:
        (left, turn_left), (right, turn_right) = untransposed(graph, a), untransposed(graph, b)
        if turn_left or turn_right:
            return op.Gemm(left, right, transA=turn_left, transB=turn_right)
    if rank_of(graph, b) == 1 and (rank_of(graph, a) > 1 or dtypes.is_float_type(dtype)):
        return _vector_product(graph, a, b)
    if dtype not in (dtypes.int8, dtypes.uint8, dtypes.int16):
        return op.MatMul(a, b)
    wide = op.MatMul(cast(graph, a, dtypes.int32), cast(graph, b, dtypes.int32))
    return cast(graph, wide, dtype)


def _complex_product(graph: Graph, a: Any, b: Any) -> ComplexValue:
    """The product of a pair with a pair or a real result."""
    op = OpBuilder(graph)
    if a.__class__ is not ComplexValue:
        parts = [matrix_product(graph, a, part) for part in (b.real, b.imag)]
        return ComplexValue(parts[0], parts[1], b.dtype)
    if b.__class__ is not ComplexValue:
        parts = [matrix_product(graph, part, b) for part in (a.real, a.imag)]
        return ComplexValue(parts[0], parts[1], a.dtype)

    def multiply_parts(left: str, right: str) -> Any:
        return matrix_product(graph, left, right)

    real = op.Sub(multiply_parts(a.real, b.real), multiply_parts(a.imag, b.imag))
    imag = op.Add(multiply_parts(a.real, b.imag), multiply_parts(a.imag, b.real))
    return ComplexValue(real, imag, a.dtype)


def _vector_product(graph: Graph, a: str, b: str) -> str:
    """A vector, matrix or batch of matrices times a vector. ONNX Runtime's MatMul with a vector
    takes 20 times as long as with a matrix, adds up one product after the other, and is wrong where
    a Transpose of ``a`` is fused into it."""
    op = OpBuilder(graph)
    rank, dtype = rank_of(graph, a), graph.get_type(a)
    if rank > 2 or not dtypes.is_float_type(dtype):
        column = matrix_product(graph, a, unsqueezed(graph, b, [1]))
        return squeezed(graph, column, [rank - 1])
    count = dim_of(graph, b, 0)
    if rank == 1 and isinstance(count, int) and count > _MAX_PRODUCTS:
        return summed_over(graph, op.Mul(a, b), [0], keepdim=False)
    left, turned = untransposed(graph, a if rank == 2 else unsqueezed(graph, a, [0]))
    row = unsqueezed(graph, b, [0])
    product = op.Gemm(row, left, transB=1 - turned)
    return squeezed(graph, product, [0] if rank == 2 else [0, 1])


def _empty_product(graph: Graph, a: str, b: str) -> str:
    """Zeros: ONNX Runtime does not write the result of a product over an empty axis."""
    first, second = shape_of(graph, a)[:-1], shape_of(graph, b)
    second, last = (second[:-2], second[-1:]) if len(second) > 1 else ((), ())
    rows = first[len(first) - 1 :]
    batch = broadcast(tuple(first[: len(first) - 1]), tuple(second))
    if batch is None:
        raise UnsupportedCase("batches whose common shape depends on which dynamic size is 1")
    return zeros_of(graph, [*batch, *rows, *last], graph.get_type(a))
