"""Multiply matrices as exactly as torch, and apply transposed linear maps of single axes."""

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
    """Return the gradient of linear maps of the last axes, in the dtype of ``grad``.

    ``weights`` has an item for each axis: a matrix [in, out], or for a dynamic size a function of
    the graph, the gradient and the axis. Each element adds up only the few elements of ``grad``
    that depend on it, so that an infinite gradient does not spread as NaN.
    """
    dtype = graph.get_type(grad)
    result = cast(graph, grad, opmath_dtype(dtype))
    first_axis = rank_of(graph, grad) - len(weights)
    for index, axis_map in enumerate(weights):
        if isinstance(axis_map, np.ndarray):
            result = _apply_axis_map(graph, result, first_axis + index, axis_map)
        else:
            result = axis_map(graph, result, first_axis + index)
    return cast(graph, result, dtype)


def _apply_axis_map(graph: Graph, x: str, axis: int, matrix: np.ndarray) -> str:
    """Compute ``result[i] = sum of matrix[i, o] * x[o]`` along one axis."""
    op = OpBuilder(graph)
    rows, columns = matrix.shape
    if rows == columns and np.array_equal(matrix, np.eye(rows)):
        return x
    rank, nonzero = rank_of(graph, x), matrix != 0
    width = max(int(nonzero.sum(axis=1).max(initial=0)), 1)
    indices = np.full((rows, width), columns, np.int64)
    factors = np.zeros((rows, width), matrix.dtype)
    for row in range(rows):
        nonzero_columns = np.flatnonzero(nonzero[row])
        indices[row, : len(nonzero_columns)], factors[row, : len(nonzero_columns)] = (
            nonzero_columns,
            matrix[row, nonzero_columns],
        )
    if (indices == columns).any():  # append a 0, which rows with fewer terms read
        pads = [0] * (2 * rank)
        pads[rank + axis] = 1
        x = op.Pad(x, consts(graph, pads, dtypes.int64))
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
    """Exchange the last two dimensions of ``x``."""
    rank = rank_of(graph, x)
    return permuted(graph, x, [*range(rank - 2), rank - 1, rank - 2])


@by_parts
def triu(graph: Graph, x: Tensor, wanted: Bool = True) -> Tensor:
    """Return the upper triangle of matrices, or the lower one if ``wanted`` is False."""
    return OpBuilder(graph).Trilu(x, upper=int(wanted))


def smaller_side(graph: Graph, x: Result) -> SymInt:
    """Return the smaller of the numbers of rows and columns of matrices."""
    return dims.min_of(*shape_of(graph, x)[-2:])


def projected(graph: Graph, x: Result, weight: Result, bias: Result | None) -> Result:
    """Apply a linear layer, ``x`` times the transposed weight, plus the bias."""
    result = matrix_product(graph, x, permuted(graph, weight, [1, 0]))
    return result if bias is None else OpBuilder(graph).Add(result, bias)


_MAX_PRODUCTS = 2**15  # a Gemm that adds more products to one result is less exact than torch


def untransposed(graph: Graph, x: Result) -> Any:
    """Return ``[y, 1]`` if ``x`` is the transpose of a 2-d ``y``, else ``[x, 0]``.

    Gemm can read ``y`` transposed, so that it does not need the Transpose.
    """
    node = graph.values[x].producer
    if node is None or node.op_type != "Transpose" or list(node.attrs["perm"]) != [1, 0]:
        return [x, 0]
    return [node.inputs[0], 1]


def matrix_product(graph: Graph, a: Tensor, b: Tensor) -> Tensor:
    """Multiply matrices with MatMul, or with Gemm if one of two float matrices is a Transpose.

    Small ints, which ONNX's MatMul does not support, are multiplied in int32; the low bits of the
    int32 product are the product that wraps around. Two complex matrices need four products.
    """
    op = OpBuilder(graph)
    if a.__class__ is ComplexValue or b.__class__ is ComplexValue:
        return _complex_product(graph, a, b)
    dtype = graph.get_type(a)
    if any(0 in shape_of(graph, operand) for operand in (a, b)):
        # ONNX Runtime returns uninitialized memory, or fails for a matrix without rows
        return _empty_product(graph, a, b)
    if dtypes.is_float_type(dtype) and rank_of(graph, a) == 2 and rank_of(graph, b) == 2:
        (left, transpose_left), (right, transpose_right) = (
            untransposed(graph, a),
            untransposed(graph, b),
        )
        if transpose_left or transpose_right:
            return op.Gemm(left, right, transA=transpose_left, transB=transpose_right)
    if rank_of(graph, b) == 1 and (rank_of(graph, a) > 1 or dtypes.is_float_type(dtype)):
        return _vector_product(graph, a, b)
    if dtype not in (dtypes.int8, dtypes.uint8, dtypes.int16):
        return op.MatMul(a, b)
    wide = op.MatMul(cast(graph, a, dtypes.int32), cast(graph, b, dtypes.int32))
    return cast(graph, wide, dtype)


def _complex_product(graph: Graph, a: Any, b: Any) -> ComplexValue:
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
    """Multiply a vector, matrix or batch of matrices by a vector.

    ONNX Runtime's MatMul with a vector takes 20 times as long as with a matrix, adds up the
    products one after the other, and is wrong if a Transpose of ``a`` is fused into it.
    """
    op = OpBuilder(graph)
    rank, dtype = rank_of(graph, a), graph.get_type(a)
    if rank > 2 or not dtypes.is_float_type(dtype):
        column = matrix_product(graph, a, unsqueezed(graph, b, [1]))
        return squeezed(graph, column, [rank - 1])
    count = dim_of(graph, b, 0)
    if rank == 1 and isinstance(count, int) and count > _MAX_PRODUCTS:
        return summed_over(graph, op.Mul(a, b), [0], keepdim=False)
    left, is_transposed = untransposed(graph, a if rank == 2 else unsqueezed(graph, a, [0]))
    row = unsqueezed(graph, b, [0])
    product = op.Gemm(row, left, transB=1 - is_transposed)
    return squeezed(graph, product, [0] if rank == 2 else [0, 1])


def _empty_product(graph: Graph, a: str, b: str) -> str:
    """Return zeros: ONNX Runtime does not write the result of a product over an empty axis."""
    left_shape, right_shape = shape_of(graph, a)[:-1], shape_of(graph, b)
    right_shape, last = (right_shape[:-2], right_shape[-1:]) if len(right_shape) > 1 else ((), ())
    rows = left_shape[len(left_shape) - 1 :]
    batch = broadcast(tuple(left_shape[: len(left_shape) - 1]), tuple(right_shape))
    if batch is None:
        raise UnsupportedCase("batches whose common shape depends on which dynamic size is 1")
    return zeros_of(graph, [*batch, *rows, *last], graph.get_type(a))
