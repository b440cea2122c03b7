"""Exported modules with known faults of graph optimizers agree with eager.

The export runs all rules, also those that are off by default; values, dtypes, shapes and signs
of zeros are compared.
"""

from __future__ import annotations

from typing import Any

import torch

from .eager import check

NAN, INF = float("nan"), float("inf")
SPECIAL = torch.tensor([0.0, -0.0, INF, -INF, NAN, 1.5, -2.0, 1e-40, 3e38])
INEXACT = torch.tensor([1.00390625, 3.14159274, 1e-3, 70000.0, 1.0001, -2.0003, 1e-9])


# -- types --------------------------------------------------------------------------------------


def test_casts_through_bfloat16_round() -> None:
    """`Cast(bf16) -> Mul -> Cast(f32)` differs from a Mul of float32."""

    def function(x: torch.Tensor) -> torch.Tensor:
        return (x.bfloat16() * x.bfloat16()).float()

    assert not torch.equal(function(INEXACT), INEXACT * INEXACT)
    check(function, INEXACT)


def test_casts_through_float16_round() -> None:
    """The round trip through float16 rounds, and overflows above 65504."""
    check(lambda x: (x.half().float(), x.half().float() + 0.0), INEXACT)


def test_a_chain_of_casts_rounds_twice() -> None:
    """float32 to bfloat16 to float16 differs from float32 to float16."""
    x = torch.tensor([1.00390625, 1.001, 1e-6, 300.7, -5.4321])
    assert not torch.equal(x.bfloat16().half(), x.half())
    check(lambda x: (x.bfloat16().half(), x.half().bfloat16(), x.double().half()), x)


def test_integers_that_were_narrowed_wrap() -> None:
    """int64 to int32 and back preserves only the low 32 bits."""
    x = torch.tensor([1, -1, 2**31, 2**40 + 5, -(2**33) - 7])
    assert not torch.equal(x.int().long(), x)
    check(lambda x: (x.int().long(), x.int().long() + 1, x.to(torch.uint8).long()), x)


def test_integers_through_floats_lose_digits() -> None:
    x = torch.tensor([2**24 + 1, 2**53 + 1, -(2**62) - 1, 3])
    check(lambda x: (x.float().long(), x.double().long()), x)


def test_bool_of_a_number_is_one() -> None:
    """float to bool to float gives 0 or 1."""
    check(lambda x: (x.bool().float(), x.bool().long() * 3), torch.tensor([0.0, 0.3, -2.0, NAN]))


def test_truncation_is_kept() -> None:
    x = torch.tensor([1.7, -1.7, 0.2, -0.2, 5.0])
    check(lambda x: (x.int().float(), x.long().float() * 1), x)


# -- neutral elements ---------------------------------------------------------------------------


def test_one_and_zero_of_higher_rank_change_the_shape() -> None:
    one, zero = torch.ones(1, 1, 1), torch.zeros(2, 1)
    check(lambda x: (x * one, x + zero, x - zero, x / one), torch.randn(3))


def test_one_and_zero_of_another_dtype_change_the_dtype() -> None:
    one, zero = torch.ones(1, dtype=torch.double), torch.zeros(3, dtype=torch.float)
    x = torch.arange(3)
    check(lambda x: (x * one, x + zero, x * 1.0, x + 0.0, x / 1), x)


def test_adding_zero_makes_negative_zero_positive() -> None:
    """`-0.0 + 0.0` is `0.0`; only `x - 0.0` and `x + -0.0` equal x."""
    check(lambda x: (x + 0.0, 0.0 + x, x - 0.0, 0.0 - x, x + -0.0, x * 1.0, x / 1.0), SPECIAL)


def test_times_zero_is_not_zero() -> None:
    """The product is NaN for infinities and NaN, and -0.0 for negative numbers."""
    check(lambda x: (x * 0.0, x - x, x * -1.0, x / x), SPECIAL[:7])


def test_minus_minus_keeps_the_sign_of_zero() -> None:
    check(lambda x: (x.neg().neg(), torch.abs(-x), -(x * -1.0)), SPECIAL)


def test_power_one_and_two() -> None:
    check(lambda x: (x**1, x**2, x**0.5, x**0), SPECIAL[:7], tolerance=1e-7)


def test_division_by_a_constant_is_not_times_its_reciprocal() -> None:
    """1/3 is rounded; 1/2 is exact; the reciprocal of a denormal is infinite."""
    x = torch.arange(1, 2000, dtype=torch.float32)
    assert not torch.equal(x / 3, x * (1 / torch.tensor(3.0)))
    check(lambda x: (x / 3.0, x / 2.0, x / 10.0, x / 0.25, x / 1e-40), x)


def test_integer_division_is_not_folded_like_that_of_reals() -> None:
    """`x // 2 * 2` differs from x, while `x // 2 // 3` equals `x // 6`."""
    x = torch.tensor([-7, -6, -1, 0, 1, 5, 7])
    check(lambda x: (x // 2 * 2, x // 2 // 3, (x * 2) // 2, x % 4 % 2, x * 2 // 4), x)


def test_products_of_large_integers_wrap() -> None:
    x = torch.tensor([2**62, -(2**62), 3])
    check(lambda x: ((x * 4) // 4, (x + 2**62) - 2**62), x)


def test_reassociation_does_not_lose_infinities() -> None:
    """`x * 1e30 * 1e30 * 1e-30` overflows, and so does the product of the constants."""
    x = torch.tensor([1.0, 1e-20, 0.0, -1.0])
    check(lambda x: (x * 1e30 * 1e30, x * 1e30 * 1e30 * 1e-30, x * 1e-30 * 1e-30), x, signs=False)


# -- bounds and choices -------------------------------------------------------------------------


def test_chains_of_clips() -> None:
    """If the lower bound exceeds the upper bound, the result is the upper bound."""
    x = torch.tensor([-3.0, -0.5, 0.0, 0.5, 3.0, INF, -INF])
    check(
        lambda x: (
            x.clamp(1, -1), x.clamp(0, 1).clamp(2, 3), x.clamp(2, 3).clamp(0, 1),
            x.clamp(min=2).clamp(max=1), x.clamp(max=1).clamp(min=2), x.clamp(0, 6).clamp(max=1),
            x.clamp(-1, 1).clamp(1, -1), torch.relu(x.clamp(-2, -1)), torch.relu(x).clamp(max=-1),
        ),
        x,
        signs=False,
    )  # fmt: skip


def test_maximum_and_minimum_chains() -> None:
    x, y = torch.randn(4), torch.randn(4)
    check(
        lambda x, y: (
            torch.maximum(torch.minimum(x, y), y), torch.minimum(torch.maximum(x, y), x),
            torch.maximum(x, x), torch.maximum(torch.maximum(x, y), x),
        ),
        x, y,
    )  # fmt: skip


def test_where_does_not_read_the_other_branch() -> None:
    """NaN in the other branch has no effect; `where(c, x, x)` broadcasts both shapes."""
    condition = torch.tensor([[True], [False], [True]])
    check(
        lambda c, x: (
            torch.where(c, x, 0.0), torch.where(c, x, x), torch.where(c, 1.0, 0.0) * x,
            torch.where(torch.isnan(x), 0.0, x), torch.where(~c, x, 1.0),
        ),
        condition, SPECIAL[:7], signs=False,  # ONNX Runtime's Where loses some signs
    )  # fmt: skip


def test_comparisons_of_nan_are_not_negated() -> None:
    """`not (x < y)` differs from `x >= y`."""
    x, y = SPECIAL[:7], torch.tensor([NAN, 0.0, INF, NAN, NAN, 1.0, -2.0])
    check(lambda x, y: (~(x < y), x >= y, ~(x == y), x != y, ~(x > y), x == x, ~~(x <= y)), x, y)


def test_boolean_algebra() -> None:
    x, y = torch.tensor([True, True, False, False]), torch.tensor([True, False, True, False])
    check(lambda x, y: (x & x, x | ~x, ~(x & y), ~x & ~y, x ^ x, x & True, x | False), x, y)


# -- shapes -------------------------------------------------------------------------------------


def test_even_part_of_a_length() -> None:
    """`2 * (n // 2)` differs from n: a length of 7 gives 6."""

    def function(x: torch.Tensor) -> Any:
        n = x.shape[0]
        return x[: 2 * (n // 2)], x[: n // 2 * 2].reshape(-1, 2), x[: n - n % 3]

    other_calls = [(torch.randn(length, 2),) for length in (7, 8, 9, 13)]
    check(function, torch.randn(7, 2), more=other_calls)


def test_sizes_computed_from_sizes() -> None:
    def function(x: torch.Tensor, y: torch.Tensor) -> Any:
        n, m = x.shape[0], y.shape[0]
        joined = torch.cat([x, y])
        return (
            joined[:n] * 1, joined[n:] + y, joined.reshape(n + m, 1, -1), x.new_ones(m, n),
            x.expand(m, n, 2), torch.arange(n + m) // n, x.reshape(2, n), y.reshape(-1),
        )  # fmt: skip

    other_calls = [(torch.randn(n, 2), torch.randn(m, 2)) for n, m in ((2, 7), (6, 3), (5, 4))]
    check(function, torch.randn(4, 2), torch.randn(3, 2), more=other_calls)


def test_transposes_that_move_only_sizes_of_one() -> None:
    x = torch.randn(1, 3, 1, 2)
    check(
        lambda x: (
            x.permute(2, 1, 0, 3), x.permute(0, 1, 3, 2), x.permute(1, 0, 2, 3), x.mT.mT,
            x.permute(3, 0, 1, 2).permute(1, 2, 3, 0), x.permute(1, 2, 3, 0).permute(1, 2, 3, 0),
        ),
        x,
    )  # fmt: skip
    check(
        lambda x: x.permute(2, 1, 0, 3), torch.randn(2, 3, 2, 2), more=[(torch.ones(1, 3, 2, 2),)]
    )


def test_reshapes_one_after_another() -> None:
    x = torch.randn(2, 3, 4)
    check(
        lambda x: (
            x.reshape(6, 4).reshape(2, 3, 4), x.reshape(-1).reshape(x.shape), x.flatten(1)[None],
            x.unsqueeze(0).squeeze(0), x.unsqueeze(1).unsqueeze(1).squeeze(1), x.reshape(4, 3, 2),
            x.reshape(3, -1).t().reshape(-1, 2), x.transpose(0, 1).reshape(2, 3, 4),
            x.squeeze(), x[:, :1].squeeze(1), x.unsqueeze(-1).flatten(2),
        ),
        x,
    )  # fmt: skip


def test_reshapes_of_empty_tensors() -> None:
    """A 0 in a torch shape is a size, not a copied dimension."""
    x = torch.randn(0, 3)
    check(lambda x: (x.reshape(3, 0), x.reshape(0, 1, 3), x.reshape(2, 0).reshape(0, 5)), x)
    check(lambda x: (x[:0].reshape(0, 4), x[:0].reshape(4, 0).reshape(0)), torch.randn(2, 2))


def test_expand_that_adds_dimensions() -> None:
    """Expand to the same shape is the identity, but not with another rank."""
    x = torch.randn(3, 1)
    check(
        lambda x: (
            x.expand(3, 1), x.expand(1, 3, 1), x.expand(2, 3, 4), x.expand(3, 4).expand(2, 3, 4),
            x.expand(3, 4) + 1, x.expand(1, 1, 3, 1) * x, x.expand(3, 4) * torch.ones(4),
            x.expand(3, 4) * torch.ones(1),
        ),
        x,
    )  # fmt: skip


def test_concatenation_of_one_and_of_parts() -> None:
    x = torch.randn(4, 6)
    check(
        lambda x: (
            torch.cat([x]), torch.cat([torch.cat([x, x]), x]), torch.cat(torch.split(x, 2)),
            torch.cat(torch.split(x, [1, 3])[::-1]), torch.cat([torch.cat([x, x], 1), x], 1),
            torch.cat([torch.cat([x, x], 1), torch.cat([x, x], 1)], 0),
            torch.cat(torch.split(x, 2, 1), 0), torch.cat([x[:2], x[2:]]),
            torch.cat([x[2:], x[:2]]),
            torch.cat(torch.split(x, [2, 2, 2], 1)[:2], 1),
        ),
        x,
    )  # fmt: skip


def test_slices_of_slices() -> None:
    x = torch.arange(14.0).reshape(7, 2)
    check(
        lambda x: (
            x[1:][1:], x[:5][2:], x[::2][1:], x[-3:][:2], x[:-1][:-1], x[5:][:9], x[2:5, :1],
            x[1:][:, 1:], x.flip(0).flip(0), x.flip(0)[1:], x[0:7], x[:100], x[3:3], x[4:2],
        ),
        x,
        more=[(torch.arange(10.0).reshape(5, 2),)],
    )  # fmt: skip


def test_gathers_with_negative_places() -> None:
    x = torch.randn(4, 3)
    indices = torch.tensor([-1, 0, -4, 2])
    check(lambda x, i: (x[i], x[-1], x[i][1], x[:, -1], x[i, -1], x[-2:][0], x[i][i]), x, indices)
