"""Functions with assertions, outside of the test module because pytest rewrites `assert` there."""

from __future__ import annotations

import torch


def positive(x):
    assert (x > 0).all(), "must be positive"
    return x.sin()


def given_flag(x):
    flag = x > 0
    torch._assert_async(flag[0], "first")
    torch._assert_async(flag[1], "second")
    return flag


def number(x):
    torch._check(x.max().item() * 2.0 < 10, lambda: "large")
    torch._check_with(ValueError, x.min().item() > -3, lambda: "small")
    return x * 2


def size_from_data(x):
    n = x.to(torch.int64).sum().item()
    torch._check(n >= 0, lambda: "below 0")  # for n < 0, zeros(n) fails in ONNX Runtime
    torch._check(n <= 5, lambda: "above 5")
    torch._check(n % 2 == 0, lambda: "odd")
    return torch.zeros(n) + 1


def size_found(x):
    indices = x.nonzero()
    torch._check(indices.size(0) <= 2)
    return indices * 2


def size_chosen(x):
    selected = torch.masked_select(x, torch.stack([x, -x, x]) > 0)
    torch._check(selected.size(0) <= 5)
    return selected * 2


def size_chosen_by_itself(x):
    selected = torch.masked_select(x, torch.stack([x, -x, x]) > 0)
    torch._check(selected.size(0) <= x.numel())
    return selected * 2


def rows(x):
    n = x.sum().to(torch.int64).item()
    torch._check(n >= 0)
    torch._check(n <= x.size(0))
    return x.narrow(0, 0, n)


def written(x):
    x.add_(1)
    assert (x > 0).all(), "after the write"
    x.mul_(2)
    return x + 1


def between_draws(x):
    y = torch.bernoulli(torch.sigmoid(x)) @ torch.ones(2, 2)
    assert (y >= 0).all(), "drawn"
    z = torch.bernoulli(torch.sigmoid(y))
    torch._assert_async((x > 0).all(), "last")
    return z


def in_a_branch(x):
    def true_branch(x):
        torch._assert_async((x > 0).all(), "in the branch")
        return x.sin()

    return torch.cond(x.sum() > -100, true_branch, lambda x: x.cos(), (x,))


def exact_number(x):
    n = x.to(torch.int64).sum().item()
    torch._check(n == 3)
    return x + n


def exact_size(x):
    found = x.nonzero()
    torch._check(found.size(0) == 2)
    return found * 2
