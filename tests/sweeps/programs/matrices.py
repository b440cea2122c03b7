"""Products of matrices, einsum, linear algebra, attention."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from . import Program, bools, ints, normal


def _make_heads(n):
    return tuple(normal(2, 3, n, 4, seed=seed) for seed in range(3))


def _make_positive_definite(n):
    x = normal(n, n)
    return (x @ x.t() + n * torch.eye(n),)


PROGRAMS = {
    "mm": (torch.mm, lambda n: (normal(n, 3), normal(3, 4))),
    "matmul": (torch.matmul, lambda n: (normal(2, n, 3), normal(2, 3, 4))),
    "matmul broadcast": (torch.matmul, lambda n: (normal(2, 1, n, 3), normal(5, 3, 4))),
    "matmul vector": (lambda a, b: (a @ b, b @ a.t(), b @ b), lambda n: (normal(n, 3), normal(3))),
    "matmul of ints": (torch.matmul, lambda n: (ints(9, n, 3), ints(9, 3, 4))),
    "matmul of nothing": (torch.matmul, lambda n: (torch.zeros(n, 0), torch.zeros(0, 4))),
    "mv dot outer": (
        lambda a, b: (a @ b, torch.dot(b, b), torch.outer(b, b)),
        lambda n: (normal(n, 3), normal(3)),
    ),
    "bmm": (torch.bmm, lambda n: (normal(n, 2, 3), normal(n, 3, 4))),
    "addmm": (
        lambda c, a, b: torch.addmm(c, a, b, alpha=0.5, beta=2),
        lambda n: (normal(n, 4), normal(n, 3), normal(3, 4)),
    ),
    "addmm beta 0": (
        lambda c, a, b: torch.addmm(c, a, b, beta=0),
        lambda n: (torch.full((n, 4), torch.nan), normal(n, 3), normal(3, 4)),
    ),
    "addmm alpha 0": Program(
        lambda c, a, b: torch.addmm(c, a, b, alpha=0),
        lambda n: (normal(n, 4), normal(n, 3), normal(3, 4)),
    ),
    "baddbmm": (
        lambda c, a, b: torch.baddbmm(c, a, b, beta=0.5),
        lambda n: (normal(n, 2, 4), normal(n, 2, 3), normal(n, 3, 4)),
    ),
    "addmv addr": (
        lambda c, a, b: (torch.addmv(c, a, b), torch.addr(a, c, b)),
        lambda n: (normal(n), normal(n, 3), normal(3)),
    ),
    "linear": (F.linear, lambda n: (normal(n, 3), normal(4, 3), normal(4))),
    "linear 3-d": (F.linear, lambda n: (normal(2, n, 3), normal(4, 3), normal(4))),
    "linear 1-d": (lambda x, w: F.linear(x, w), lambda n: (normal(3), normal(4, 3))),
    "linear of double": (
        lambda x, w: F.linear(x, w) * 0.1,
        lambda n: (normal(n, 3).double(), normal(4, 3).double()),
    ),
    "linear of bfloat16": Program(
        F.linear,
        lambda n: (normal(n, 3).bfloat16(), normal(4, 3).bfloat16(), normal(4).bfloat16()),
        rtol=0.02,
        atol=0.02,
    ),
    "bilinear": (F.bilinear, lambda n: (normal(n, 3), normal(n, 4, seed=1), normal(2, 3, 4))),
    "gram": (lambda x: (x @ x.t(), x.t() @ x), lambda n: (normal(n, 3),)),
    "transposed operands": (lambda a, b: a.t() @ b.t(), lambda n: (normal(3, n), normal(4, 3))),
    "chain": (lambda a: torch.linalg.multi_dot([a, a.t(), a]), lambda n: (normal(n, 3),)),
    "einsum ij,jk": (
        lambda a, b: torch.einsum("ij,jk->ik", a, b),
        lambda n: (normal(n, 3), normal(3, 4)),
    ),
    "einsum heads": (lambda q, k, v: torch.einsum("bhqd,bhkd->bhqk", q, k), _make_heads),
    "einsum sums": (lambda a: torch.einsum("ij->j", a), lambda n: (normal(n, 3),)),
    "einsum diagonal": (lambda a: torch.einsum("ii->i", a), lambda n: (normal(n, n),)),
    "einsum three": (lambda q, k, v: torch.einsum("bhqd,bhkd,bhkv->bhqv", q, k, v), _make_heads),
    "tensordot": (
        lambda a, b: torch.tensordot(a, b, 2),
        lambda n: (normal(n, 3, 4), normal(3, 4, 2)),
    ),
    "kron": (torch.kron, lambda n: (normal(n, 2), normal(2, 3))),
    "cross": (
        lambda a, b: torch.linalg.cross(a, b),
        lambda n: (normal(n, 3), normal(n, 3, seed=1)),
    ),
    "cdist": Program(torch.cdist, lambda n: (normal(n, 3), normal(4, 3, seed=1)), atol=1e-4),
    "cdist p 1": (
        lambda a, b: torch.cdist(a, b, p=1.0),
        lambda n: (normal(n, 3), normal(4, 3, seed=1)),
    ),
    "pdist": (F.pdist, lambda n: (normal(n, 3),)),
    "pairwise_distance": (F.pairwise_distance, lambda n: (normal(n, 3), normal(n, 3, seed=1))),
    "det": (lambda x: (torch.linalg.det(x), torch.linalg.slogdet(x)), lambda n: (normal(n, 3, 3),)),
    "inverse": Program(torch.linalg.inv, lambda n: (normal(n, 3, 3),), atol=1e-4),
    "solve": Program(torch.linalg.solve, lambda n: (normal(n, 3, 3), normal(n, 3, 2)), atol=1e-4),
    "cholesky": (torch.linalg.cholesky, _make_positive_definite),
    "cholesky_solve": Program(
        lambda a: torch.cholesky_solve(torch.ones(a.shape[0], 1), torch.linalg.cholesky(a)),
        _make_positive_definite,
        dynamic=True,
    ),
    "triangular": (
        lambda a, b: torch.linalg.solve_triangular(a.tril() + 3 * torch.eye(3), b, upper=False),
        lambda n: (normal(3, 3), normal(3, n)),
    ),
    "qr": (lambda x: torch.linalg.qr(x)[1].abs(), lambda n: (normal(n, 4, 3),)),
    "eigvalsh": (lambda x: torch.linalg.eigvalsh(x + x.mT), lambda n: (normal(n, 3, 3),)),
    "eigvals": Program(
        lambda x: torch.linalg.eigvals(x).abs().sum(1), lambda n: (normal(n, 3, 3),), train=False
    ),
    "ldl_factor": Program(
        lambda x: torch.linalg.ldl_factor(x + x.mT), lambda n: (normal(n, 3, 3),), train=False
    ),
    "svdvals": (torch.linalg.svdvals, lambda n: (normal(n, 3, 4),)),
    "pinv": Program(torch.linalg.pinv, lambda n: (normal(n, 4, 3),), atol=1e-4, train=False),
    "matrix_power": (lambda x: torch.linalg.matrix_power(x, 3), lambda n: (normal(n, 3, 3),)),
    "matrix_exp": Program(
        torch.linalg.matrix_exp, lambda n: (normal(n, 3, 3),), rtol=1e-4, train=False
    ),
    "matrix_norm": (
        lambda x: (torch.linalg.matrix_norm(x), torch.linalg.matrix_norm(x, 1)),
        lambda n: (normal(n, 3, 4),),
    ),
    "attention": (F.scaled_dot_product_attention, _make_heads),
    "attention causal": (
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
        _make_heads,
    ),
    "attention mask": (
        lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, attn_mask=m),
        lambda n: (*_make_heads(n), bools(n, n) | torch.eye(n, dtype=torch.bool)),
    ),
    "attention bias": (
        lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, attn_mask=m, scale=0.3),
        lambda n: (*_make_heads(n), normal(2, 1, n, n)),
    ),
    "attention grouped": (
        lambda q, k, v: F.scaled_dot_product_attention(q, k[:, :1], v[:, :1], enable_gqa=True),
        _make_heads,
    ),
    "attention by hand": (
        lambda q, k, v: (q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5).softmax(-1) @ v,
        _make_heads,
    ),
    "attention by hand causal": (
        lambda q, k, v: (
            (
                (q @ k.mT).masked_fill(
                    torch.ones(q.shape[2], q.shape[2]).triu(1).bool(), -torch.inf
                )
            ).softmax(-1)
            @ v
        ),
        _make_heads,
    ),
}
