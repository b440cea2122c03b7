"""Helper functions of shape and dtype rules agree with numpy, torch and Python slices."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from ortable import dims, dtypes, inference
from ortable.errors import BuilderError

n, m = dims.make_symbol("n"), dims.make_symbol("m")
batch = dims.make_symbol("batch", 2)

_TORCH_TYPES = [
    torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.uint16,
    torch.uint32, torch.uint64, torch.float16, torch.bfloat16, torch.float32, torch.float64,
    torch.complex64, torch.complex128, torch.float8_e4m3fn, torch.float8_e5m2,
    torch.float8_e4m3fnuz, torch.float8_e5m2fnuz,
]  # fmt: skip


@pytest.mark.parametrize(("a", "b"), list(itertools.product(_TORCH_TYPES, repeat=2)), ids=str)
def test_promote_types_is_torch_promote_types(a: torch.dtype, b: torch.dtype) -> None:
    x, y = dtypes.from_torch(a), dtypes.from_torch(b)
    try:
        expected = dtypes.from_torch(torch.promote_types(a, b))
    except RuntimeError:
        with pytest.raises(BuilderError, match="no common type"):
            inference.promote_types(x, y)
        return
    assert inference.promote_types(x, y) == expected


@pytest.mark.parametrize("dtype", _TORCH_TYPES[:-6], ids=str)
def test_accumulate_is_the_type_of_torch_sum(dtype: torch.dtype) -> None:
    expected = torch.empty(2, dtype=dtype, device="meta").sum().dtype
    assert inference.accumulate_dtype(dtypes.from_torch(dtype)) == dtypes.from_torch(expected)


def test_promote_to_float_turns_integers_into_float32() -> None:
    assert inference.promote_to_float(dtypes.int64, dtypes.boolean) == dtypes.float32
    assert inference.promote_to_float(dtypes.int64, dtypes.float16) == dtypes.float16
    assert inference.promote_to_float(dtypes.complex64) == dtypes.complex64
    assert inference.promote_to_float(dtypes.float32, None) is None


@given(st.lists(st.lists(st.sampled_from([0, 1, 1, 2, 3]), max_size=3), min_size=1, max_size=3))
def test_broadcast_is_numpys(shapes: list[list[int]]) -> None:
    given_shapes = [tuple(s) for s in shapes]
    try:
        expected = np.broadcast_shapes(*given_shapes)
    except ValueError:
        with pytest.raises(BuilderError, match="cannot be broadcast"):
            inference.broadcast(*given_shapes)
    else:
        assert inference.broadcast(*given_shapes) == expected


_DIM_NAMES = st.sampled_from(["0", "1", "2", "n", "m", "b"])


@given(
    st.lists(st.lists(_DIM_NAMES, max_size=3), min_size=1, max_size=3),
    st.sampled_from([0, 1, 2]),
    st.sampled_from([0, 1, 2, 5]),
    st.sampled_from([2, 3]),
)
def test_symbolic_broadcast_is_right_for_every_legal_size(
    shapes: list[list[str]], size_n: int, size_m: int, size_b: int
) -> None:
    dims_by_name = {"n": n, "m": m, "b": batch}
    sizes = {"n": size_n, "m": size_m, "batch": size_b}
    symbolic = [tuple(dims_by_name.get(d, int(d) if d.isdigit() else 0) for d in s) for s in shapes]
    concrete = [tuple(dims.evaluate_dim(d, sizes) for d in s) for s in symbolic]
    try:
        expected = np.broadcast_shapes(*concrete)
    except ValueError:
        return  # these sizes do not broadcast
    inferred = inference.broadcast(*symbolic)
    assert inferred is None or tuple(dims.evaluate_dim(d, sizes) for d in inferred) == expected


def test_broadcast_knows_symbols() -> None:
    assert inference.broadcast((n, 1), (1, 3)) == (n, 3)
    assert inference.broadcast((n,), (n,)) == (n,)
    assert inference.broadcast((n,), (5,)) == (5,)
    assert inference.broadcast((n,), (m,)) is None
    assert inference.broadcast((batch,), (n,)) == (batch,)
    assert inference.broadcast((n,), None) is None
    with pytest.raises(BuilderError, match=r"\[batch \+ 3, 4\] and \[2, 4\]"):
        inference.broadcast((batch + 3, 4), (2, 4))


_INDEX = st.one_of(st.integers(-9, 9), st.sampled_from([2**31 - 1, 2**63 - 1, -(2**63), -(2**31)]))


@given(st.integers(0, 6), _INDEX, _INDEX, st.sampled_from([1, 2, 3, -1, -2]))
def test_slice_length_is_pythons(size: int, start: int, end: int, step: int) -> None:
    if step < 0 and start < -size:
        assert inference.slice_length(size, start, end, step) is None
        return
    expected = len(range(size)[slice(start, end, step)])
    assert inference.slice_length(size, start, end, step) == expected
    for symbol in (n, dims.make_symbol("n", 2)) if size >= 2 else (n,):
        length = inference.slice_length(symbol, start, end, step)
        assert length is None or dims.evaluate_dim(length, {"n": size}) == expected


@given(st.integers(0, 6), st.integers(0, 8), st.integers(0, 8))
def test_slice_length_with_symbolic_bounds(size: int, start: int, end: int) -> None:
    length = inference.slice_length(n, dims.make_symbol("start"), dims.make_symbol("end"))
    assert length is not None
    assert dims.evaluate_dim(length, {"n": size, "start": start, "end": end}) == len(
        range(size)[start:end]
    )


def test_a_bound_that_may_be_negative_is_unknown() -> None:
    assert inference.slice_length(n, 0, n - 3) is None
    assert inference.slice_length(batch, 0, batch - 1) is not None


@given(
    st.integers(1, 12),
    st.integers(1, 4),
    st.integers(1, 5),
    st.integers(0, 2),
    st.integers(0, 2),
    st.booleans(),
)
def test_pool_is_torchs(
    size: int, kernel: int, stride: int, begin: int, end: int, ceil: bool
) -> None:
    begin, end = min(begin, kernel // 2), min(end, kernel // 2)
    if size + begin + end < kernel or (ceil and begin != end):
        return
    padded = torch.zeros(1, 1, size) if ceil else torch.zeros(1, 1, size + begin + end)
    expected = torch.nn.functional.max_pool1d(
        padded, kernel, stride, begin if ceil else 0, ceil_mode=ceil
    ).shape
    args = ([kernel], [stride], [begin, end], None, "NOTSET", int(ceil))
    assert inference.pool_shape((1, 1, size), *args) == tuple(expected)
    shape = inference.pool_shape((1, 1, n), *args)
    assert shape is not None and dims.evaluate_dim(shape[2], {"n": size}) == expected[2]


def test_reduce_shape_as_torch_does() -> None:
    assert inference.reduce_shape((n, 3, 4), [1, -1], True) == (n, 1, 1)
    assert inference.reduce_shape((n, 3, 4), 0) == (3, 4)
    assert inference.reduce_shape((n, 3), []) == ()
    assert inference.reduce_shape((), 0) == ()
    assert inference.reduce_shape(None, 0) is None
    with pytest.raises(BuilderError, match="axis 3 is out of range for rank 2"):
        inference.reduce_shape((n, 3), [3])
    with pytest.raises(BuilderError, match="one axis twice"):
        inference.reduce_shape((n, 3), [0, -2])


def test_permute_and_keep_leading() -> None:
    assert inference.permute_shape((n, 3, 4), [2, 0, -2]) == (4, n, 3)
    assert inference.permute_shape((n, 3)) == (3, n)
    assert inference.keep_leading((n, 3, 4), 1, (5,)) == (n, 5)
    assert inference.keep_leading((n, 3, 4), -1, (m,)) == (n, 3, m)
    with pytest.raises(BuilderError, match=r"perm \[0, 0\] is not a permutation"):
        inference.permute_shape((n, 3), [0, 0])


def test_concat_adds_one_axis_and_unifies_the_others() -> None:
    assert inference.concat_shape([(n, 3), (m, 3), (2, 3)], 0) == (n + m + 2, 3)
    assert inference.concat_shape([(n, 3), (5, 2)], -1) == (5, 5)
    assert inference.concat_shape([(0,), (n, 3)], 0) == (n, 3)
    assert inference.concat_shape([(n, 3), None], 0) is None
    with pytest.raises(BuilderError, match=r"\[n, 3\], \[n, 4\] cannot be concatenated"):
        inference.concat_shape([(n, 3), (n, 4)], 0)


def test_unify_binds_names_and_prefers_ints() -> None:
    matmul_axes = ((("m", "k"), ("k", "n")), (("m", "n"),))
    assert inference.unify_shapes(*matmul_axes, ((n, 3), (3, 4))) == ((n, 4),)
    assert inference.unify_shapes(*matmul_axes, ((n, m), (3, 4))) == ((n, 4),)
    assert inference.unify_shapes((("a",), ("a",)), (("a",),), ((n,), (3,))) == ((3,),)
    assert inference.unify_shapes(
        (("*",), ("m", "k"), ("k", "n")), (("m", "n"),), (None, (2, 3), (3, 4))
    ) == ((2, 4),)
    assert inference.unify_shapes((("...", "k"), ("k",)), (("...",),), ((5, 2, 3), (3,))) == (
        (5, 2),
    )
    assert inference.unify_shapes(*matmul_axes, ((n, 3), None)) == (None,)
    with pytest.raises(BuilderError, match="k is both 3 and 4"):
        inference.unify_shapes(*matmul_axes, ((2, 3), (4, 5)))
    with pytest.raises(BuilderError, match="rank 1 where"):
        inference.unify_shapes(*matmul_axes, ((2,), (2, 5)))


@pytest.mark.parametrize(
    ("shape", "target", "expected"),
    [
        ((n, 12, 64), (0, -1), (n, 768)),
        ((n, m, 768), (n, m, 12, 64), (n, m, 12, 64)),
        ((n, m, 768), (0, 0, 12, 64), (n, m, 12, 64)),
        ((n, m, 768), (-1, 768), (n * m, 768)),
        ((n * m, 8), (n, -1, 8), (n, dims.floor_div(n * m, n), 8)),
        ((n, 4), (-1,), (4 * n,)),
        ((4 * n,), (-1, 2), (2 * n, 2)),
        ((n, 4), (-1, 3), (dims.floor_div(4 * n, 3), 3)),
        ((6, n), (4, -1), (4, dims.floor_div(3 * n, 2))),
        ((0,), (1, -1), (1, 0)),
        ((n,), (m - 1, -1), None),
        (None, (2, 3), (2, 3)),
        (None, (0, 3), None),
        ((2, 3), None, None),
    ],
)
def test_reshape_with_symbols(shape: object, target: object, expected: object) -> None:
    assert inference.reshape_shape(shape, target) == expected


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: inference.reshape_shape((2, 3), (4, 2)),
            r"\[2, 3\] cannot be reshaped to \[4, 2\]",
        ),
        (
            lambda: inference.reshape_shape((2, 3), (4, -1)),
            r"\[2, 3\] cannot be reshaped to \[4, -1\]",
        ),
        (lambda: inference.reshape_shape((2, 3), (-1, -1)), "only one size may be -1"),
        (lambda: inference.matmul_shape((2, 3), (4, 5)), r"MatMul of \[2, 3\] and \[4, 5\]"),
        (lambda: inference.matmul_shape((), (4, 5)), "a scalar has no inner axis"),
        (lambda: inference.gemm_shape((2, 3), (5, 4), 0, 1), r"Gemm of \[2, 3\] and \[5, 4\]"),
        (lambda: inference.gemm_shape((2, 3, 1), (5, 4)), "needs two matrices"),
        (
            lambda: inference.conv_shape((1, 3, 8), (4, 2, 3), None, None, None, None, 1, "NOTSET"),
            "has 3 channels",
        ),
        (lambda: inference.squeeze_shape((n, 3), (1,)), r"Axis 1 of \[n, 3\] is not 1"),
        (lambda: inference.split_shapes((7,), (3, 3), None, 0, 2), "does not add up"),
        (lambda: inference.slice_shape((7,), (0,), (1,), (), (0,)), "step of 0"),
        (lambda: inference.slice_shape((7,), (0, 1), (1,), (), ()), "different lengths"),
        (lambda: inference.pad_shape((2, 3), (1, 1), ()), r"Pad of \[2, 3\] needs 4 pads"),
        (lambda: inference.einsum_shape("ij,jk->ik", [(2, 3), (4, 5)]), "j is both 3 and 4"),
        (lambda: inference.einsum_shape("ij->i", [(2, 3, 4)]), "ij does not fit"),
        (
            lambda: inference.required_attribute({}, "axis", "Concat"),
            "Concat needs its attribute 'axis'",
        ),
    ],
)
def test_shapes_that_cannot_fit_are_errors_that_name_them(call: object, message: str) -> None:
    with pytest.raises(BuilderError, match=message):
        call()  # type: ignore[operator]


def test_sizes_that_may_fit_are_never_refused() -> None:
    assert inference.matmul_shape((2, n), (3, 5)) == (2, 5)
    assert inference.squeeze_shape((n, 3), (0,)) == (3,)
    assert inference.split_shapes((n,), (3, 3), None, 0, 2) == ((3,), (3,))
    assert inference.conv_shape((1, n, 8), (4, 2, 3), None, None, None, None, 1, "") == (1, 4, 6)


def test_einsum_knows_that_a_size_of_one_stretches() -> None:
    assert inference.einsum_shape("ij,jk->ik", [(n, 3), (3, m)]) == (n, m)
    assert inference.einsum_shape("ij,ij->ij", [(n, 3), (1, 3)]) == (n, 3)
    assert inference.einsum_shape("ij,ij->ij", [(n, 3), (4, 3)]) == (4, 3)
    assert inference.einsum_shape("ij,ij->ij", [(n, 3), (m, 3)]) is None
    assert inference.einsum_shape("ij,ij->j", [(n, 3), (m, 3)]) == (3,)
    assert inference.einsum_shape("...i,...i->...", [(n, 3), (1, 3)]) == (n,)
    assert inference.einsum_shape("...i,...i->...", [(n, 3), (m, 3)]) is None


def test_division_of_content_is_known_only_for_positive_numbers() -> None:
    assert inference.div_value(-7, 2) == -3
    assert inference.div_value(n, 2) == n // 2
    assert inference.div_value(n - 3, 2) is None
    assert inference.div_value(7, 0) is None
    assert inference.mod_value(-7, 4) == 1
    assert inference.mod_value(n - 3, 4, 1) is None


def test_content_that_wraps_is_unknown() -> None:
    assert inference.fitting_value(dtypes.int32, (2**31,)) is None
    assert inference.fitting_value(dtypes.int64, 2**31) == 2**31
    assert inference.fitting_value(dtypes.int64, -(2**63) - 1) is None
    assert inference.fitting_value(dtypes.float32, 1) is None


def test_an_end_that_is_surely_negative_counts_from_the_back() -> None:
    offset = dims.make_symbol("k", 1)
    assert inference.slice_length(offset + 3, 0, -offset, 1) == 3
    assert inference.slice_length(offset + 3, 0, 1 - offset, 1) is None  # the end is 0 if k is 1
