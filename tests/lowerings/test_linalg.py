"""Vectors of eigenvalues and singular values, whose signs no comparison with eager can settle: they
are tested by what they are for. And batches, sizes and matrices that sample calls do not reach."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnxruntime
import pytest
import torch

import ortable


class _Call(torch.nn.Module):
    def __init__(self, inner: Callable[..., object]) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, *args: torch.Tensor) -> object:
        return self.inner(*args)


def _run(
    function: Callable[..., object], *args: torch.Tensor, dynamic: object = None
) -> list[torch.Tensor]:
    program = torch.export.export(_Call(function), args, dynamic_shapes=dynamic)
    model = ortable.to_onnx(program)
    proto = getattr(model, "model_proto", model)
    session = onnxruntime.InferenceSession(
        proto.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    feeds = {value.name: arg.numpy() for value, arg in zip(session.get_inputs(), args, strict=True)}
    return [torch.from_numpy(np.array(found)) for found in session.run(None, feeds)]


def _matrix(*shape: int, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    return torch.randn(*shape, dtype=dtype, generator=torch.Generator().manual_seed(0))


def _unit(size: int) -> torch.Tensor:
    return torch.eye(size, dtype=torch.float64)


@pytest.mark.parametrize("size", [1, 2, 5, 8, 33])
def test_eigenvectors_of_symmetric_matrices(size: int) -> None:
    x = _matrix(2, size, size)
    x = x + x.mT
    values, vectors = _run(torch.linalg.eigh, x)
    torch.testing.assert_close(values, torch.linalg.eigvalsh(x))
    torch.testing.assert_close(vectors @ torch.diag_embed(values) @ vectors.mT, x)
    torch.testing.assert_close(vectors.mT @ vectors, _unit(size).expand(2, size, size))


def test_equal_eigenvalues_and_zeros() -> None:
    for x in (_unit(4), torch.ones(4, 4, dtype=torch.float64), torch.zeros(3, 3).double()):
        values, vectors = _run(torch.linalg.eigh, x)
        torch.testing.assert_close(vectors @ torch.diag(values) @ vectors.mT, x)
        torch.testing.assert_close(vectors.mT @ vectors, _unit(len(x)))


@pytest.mark.parametrize("shape", [(4, 3), (3, 4), (5, 5), (2, 6, 3), (1, 1), (20, 31)])
@pytest.mark.parametrize("full", [True, False])
def test_singular_vectors(shape: tuple[int, ...], full: bool) -> None:
    x = _matrix(*shape)
    u, s, vh = _run(lambda x: torch.linalg.svd(x, full_matrices=full), x)
    wanted = torch.linalg.svd(x, full_matrices=full)
    assert [u.shape, s.shape, vh.shape] == [each.shape for each in wanted]
    torch.testing.assert_close(s, wanted[1])
    count = min(shape[-2:])
    torch.testing.assert_close(u[..., :count] @ torch.diag_embed(s) @ vh[..., :count, :], x)
    torch.testing.assert_close(u.mT @ u, _unit(u.shape[-1]).expand(*shape[:-2], -1, -1))
    torch.testing.assert_close(vh @ vh.mT, _unit(vh.shape[-2]).expand(*shape[:-2], -1, -1))


def test_singular_vectors_of_a_singular_matrix() -> None:
    x = torch.outer(torch.arange(4.0).double(), torch.ones(3).double())
    u, s, vh = _run(torch.linalg.svd, x)
    torch.testing.assert_close(u[:, :3] @ torch.diag(s) @ vh, x)
    torch.testing.assert_close(u.mT @ u, _unit(4))


def test_wide_matrices_of_dynamic_size() -> None:
    x = _matrix(3, 7)
    sizes = torch.export.Dim.DYNAMIC
    (found,) = _run(torch.linalg.svdvals, x, dynamic=(({0: sizes, 1: sizes},),))
    torch.testing.assert_close(found, torch.linalg.svdvals(x))


def test_pivots_of_a_larger_matrix() -> None:
    x = _matrix(3, 40, 40)
    factors, pivots = _run(torch.linalg.lu_factor, x)
    wanted = torch.linalg.lu_factor(x)
    torch.testing.assert_close(factors, wanted[0])
    assert torch.equal(pivots, wanted[1])
