"""Eigenvectors and singular vectors satisfy their equations; their signs are free."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

import ortable
from tests.modules import Function
from tests.onnx_runs import run

_KINDS = [(torch.float32, False), (torch.complex128, False), (torch.complex128, True)]


def _run(
    function: Callable[..., object], *args: torch.Tensor, dynamic: object = None
) -> list[torch.Tensor]:
    program = torch.export.export(Function(function), args, dynamic_shapes=dynamic)
    return run(ortable.to_onnx(program), *args)


def _matrix(*shape: int, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    return torch.randn(*shape, dtype=dtype, generator=torch.Generator().manual_seed(0))


def _identity(size: int) -> torch.Tensor:
    return torch.eye(size, dtype=torch.float64)


@pytest.mark.parametrize("size", [1, 2, 5, 8, 33])
def test_eigenvectors_of_symmetric_matrices(size: int) -> None:
    x = _matrix(2, size, size)
    x = x + x.mT
    values, vectors = _run(torch.linalg.eigh, x)
    torch.testing.assert_close(values, torch.linalg.eigvalsh(x))
    torch.testing.assert_close(vectors @ torch.diag_embed(values) @ vectors.mT, x)
    torch.testing.assert_close(vectors.mT @ vectors, _identity(size).expand(2, size, size))


def test_equal_eigenvalues_and_zeros() -> None:
    for x in (_identity(4), torch.ones(4, 4, dtype=torch.float64), torch.zeros(3, 3).double()):
        values, vectors = _run(torch.linalg.eigh, x)
        torch.testing.assert_close(vectors @ torch.diag(values) @ vectors.mT, x)
        torch.testing.assert_close(vectors.mT @ vectors, _identity(len(x)))


@pytest.mark.parametrize("shape", [(4, 3), (3, 4), (5, 5), (2, 6, 3), (1, 1), (20, 31)])
@pytest.mark.parametrize("full", [True, False])
def test_singular_vectors(shape: tuple[int, ...], full: bool) -> None:
    x = _matrix(*shape)
    u, s, vh = _run(lambda x: torch.linalg.svd(x, full_matrices=full), x)
    expected = torch.linalg.svd(x, full_matrices=full)
    assert [u.shape, s.shape, vh.shape] == [part.shape for part in expected]
    torch.testing.assert_close(s, expected[1])
    count = min(shape[-2:])
    torch.testing.assert_close(u[..., :count] @ torch.diag_embed(s) @ vh[..., :count, :], x)
    torch.testing.assert_close(u.mT @ u, _identity(u.shape[-1]).expand(*shape[:-2], -1, -1))
    torch.testing.assert_close(vh @ vh.mT, _identity(vh.shape[-2]).expand(*shape[:-2], -1, -1))


def test_singular_vectors_of_a_singular_matrix() -> None:
    x = torch.outer(torch.arange(4.0).double(), torch.ones(3).double())
    u, s, vh = _run(torch.linalg.svd, x)
    torch.testing.assert_close(u[:, :3] @ torch.diag(s) @ vh, x)
    torch.testing.assert_close(u.mT @ u, _identity(4))


def test_wide_matrices_of_dynamic_size() -> None:
    x = _matrix(3, 7)
    sizes = torch.export.Dim.DYNAMIC
    (values,) = _run(torch.linalg.svdvals, x, dynamic=(({0: sizes, 1: sizes},),))
    torch.testing.assert_close(values, torch.linalg.svdvals(x))


@pytest.mark.parametrize("function", [torch.linalg.eigh, torch.linalg.svd])
@pytest.mark.parametrize("shape", [(2, 0, 0), (0, 3, 3)])
def test_nothing_of_a_dynamic_batch(
    function: Callable[..., object], shape: tuple[int, ...]
) -> None:
    batch = torch.export.Dim.DYNAMIC
    example = (torch.zeros(2, *shape[1:]),)
    program = torch.export.export(Function(function), example, dynamic_shapes=(({0: batch},),))
    results = run(ortable.to_onnx(program), torch.zeros(shape))
    assert [t.shape for t in results] == [t.shape for t in function(torch.zeros(shape))]


def test_pivots_of_a_larger_matrix() -> None:
    x = _matrix(3, 40, 40)
    factors, pivots = _run(torch.linalg.lu_factor, x)
    expected = torch.linalg.lu_factor(x)
    torch.testing.assert_close(factors, expected[0])
    assert torch.equal(pivots, expected[1])


def _integer_matrices(dtype: torch.dtype, size: int) -> torch.Tensor:
    """Return matrices that need exchanges and blocks of two rows, and some singular matrices."""
    generator = torch.Generator().manual_seed(0)
    parts = torch.randint(-1, 2, (2, 40, size, size), generator=generator).to(dtype)
    parts = parts * (torch.rand(40, size, size, generator=generator) < 0.6)
    return parts[0] + 1j * parts[1] if dtype.is_complex else parts[0]


@pytest.mark.parametrize(("dtype", "hermitian"), _KINDS)
def test_symmetric_factors_are_those_of_lapack(dtype: torch.dtype, hermitian: bool) -> None:
    batch = torch.export.Dim.DYNAMIC

    def factorize(x: torch.Tensor) -> object:
        return torch.linalg.ldl_factor_ex(x, hermitian=hermitian)

    x = _integer_matrices(dtype, 4)
    expected = factorize(x)
    argument = torch.view_as_real(x) if dtype.is_complex else x
    actual = _run(lambda x: factorize(_to_dtype(x, dtype)), argument, dynamic=(({0: batch},),))
    assert torch.equal(actual[1], expected[1])
    assert {len(set(row.sign().tolist())) for row in expected[1]} == {1, 2}
    assert torch.equal(actual[2], expected[2])
    assert expected[2].unique().numel() > 2
    if not dtype.is_complex:
        assert torch.equal(actual[0], expected[0])
        return
    torch.testing.assert_close(_to_dtype(actual[0], dtype), expected[0])


def _to_dtype(x: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    return torch.view_as_complex(x) if dtype.is_complex else x


@pytest.mark.parametrize(("dtype", "hermitian"), _KINDS)
def test_symmetric_matrices_of_dynamic_size_are_solved(dtype: torch.dtype, hermitian: bool) -> None:
    size = torch.export.Dim.DYNAMIC
    x, b = _matrix(2, 20, 20, dtype=dtype), _matrix(20, 3, dtype=dtype)

    def solve(x: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        x, b = _to_dtype(x, dtype), _to_dtype(b, dtype)
        factors, pivots = torch.linalg.ldl_factor(x, hermitian=hermitian)
        result = torch.linalg.ldl_solve(factors, pivots, b, hermitian=hermitian)
        return torch.view_as_real(result) if dtype.is_complex else result

    arguments = [torch.view_as_real(tensor) if dtype.is_complex else tensor for tensor in (x, b)]
    (actual,) = _run(solve, *arguments, dynamic=(({1: size, 2: size}, {0: size}),))
    upper = x.tril(-1).mH if hermitian else x.tril(-1).mT
    full = x.tril() + upper
    if hermitian and dtype.is_complex:
        full = full - 1j * torch.diag_embed(x.diagonal(dim1=1, dim2=2).imag)
    tolerances = {"rtol": 1e-3, "atol": 1e-3} if dtype is torch.float32 else {}
    torch.testing.assert_close(full @ _to_dtype(actual, dtype), b.expand(2, 20, 3), **tolerances)
