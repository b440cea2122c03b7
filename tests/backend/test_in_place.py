"""Arguments that a graph writes into where they lie, a cache of keys for one: values, versions,
what is read elsewhere, layouts that are copied first."""

from __future__ import annotations

import pytest
import torch

from ortable.backend.execute import call
from tests.backend.against_eager import compiled

ROWS = torch.randn(1, 2, 1, 4, generator=torch.Generator().manual_seed(0))


def step(cache, rows, place):
    cache.index_copy_(2, place, rows)
    return cache.sum(-1) * 2


def twice(cache, rows, place):
    before = cache * 3
    cache.index_copy_(2, place, rows)
    return before, cache + 1


def two(cache, other, rows, place):
    cache.index_copy_(2, place, rows)
    other.index_copy_(2, place, rows + 1)
    return (cache * other).sum((-1, -2))


def run(function, *args):
    """The compiled function against eager, arguments included; the pairs of outputs and inputs that
    share memory."""
    seen = []
    original = call.in_place_runner

    def noted(session, sources):
        seen.append(dict(sources))
        return original(session, sources)

    ours, theirs = [[each.clone() for each in args] for _ in range(2)]
    with pytest.MonkeyPatch.context() as patch, torch.no_grad():
        patch.setattr(call, "in_place_runner", noted)
        fn = compiled(function)
        for _ in range(3):
            found, wanted = fn(*ours), function(*theirs)
            torch.testing.assert_close(found, wanted)
            torch.testing.assert_close(ours, theirs)
    return seen


def test_rows_are_written_where_the_cache_lies() -> None:
    assert len(run(step, torch.randn(1, 2, 6, 4), ROWS, torch.tensor([3]))[0]) == 1


def test_a_cache_that_is_read_elsewhere_is_copied() -> None:
    assert run(twice, torch.randn(1, 2, 6, 4), ROWS, torch.tensor([3])) == []


def test_two_caches() -> None:
    cache = torch.randn(1, 2, 6, 4)
    seen = run(two, cache, cache + 1, ROWS, torch.tensor([5]))
    assert len(seen[0]) == 2


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.bool, torch.float16])
def test_dtypes(dtype) -> None:
    def write(cache, rows, place):
        cache.index_copy_(1, place, rows)
        return cache.clone()

    rows = torch.ones(3, 2).to(dtype)
    run(write, torch.zeros(3, 5).to(dtype), rows, torch.tensor([4, 1]))


def test_pointer_and_version() -> None:
    cache, place = torch.zeros(1, 2, 6, 4), torch.tensor([0])
    fn = compiled(step)
    with torch.no_grad():
        fn(cache, ROWS, place)
        pointer, version = cache.data_ptr(), cache._version
        fn(cache, ROWS, place + 2)
    assert cache.data_ptr() == pointer
    assert cache._version > version
    assert torch.equal(cache[:, :, [0, 2]], ROWS.expand(1, 2, 2, 4))
    assert not cache[:, :, [1, 3, 4, 5]].any()


def test_another_layout_than_traced() -> None:
    """A cache whose memory has gaps is copied, and written back."""
    fn = compiled(step)
    place = torch.tensor([1])
    with torch.no_grad():
        fn(torch.zeros(1, 2, 6, 4), ROWS, place)
        wide = torch.zeros(1, 2, 6, 8)
        gaps = wide[..., ::2]
        found = fn(gaps, ROWS, place)
        same = torch.zeros(1, 2, 6, 4)
        torch.testing.assert_close(found, step(same, ROWS, place))
    assert torch.equal(gaps, same)
    assert not wide[..., 1::2].any()


def test_an_index_out_of_range_is_an_error_and_the_next_call_is_right() -> None:
    fn = compiled(step)
    cache = torch.zeros(1, 2, 6, 4)
    with torch.no_grad():
        fn(cache, ROWS, torch.tensor([0]))
        with pytest.raises(IndexError, match="index 9 is out of bounds for dimension 2"):
            fn(cache, ROWS, torch.tensor([9]))
        found = fn(cache, ROWS, torch.tensor([1]))
        same = torch.zeros(1, 2, 6, 4)
        step(same, ROWS, torch.tensor([0]))
        torch.testing.assert_close(found, step(same, ROWS, torch.tensor([1])))
    assert torch.equal(cache, same)


def test_inference_tensors_have_no_version() -> None:
    fn = compiled(step)
    with torch.inference_mode():
        cache = torch.zeros(1, 2, 6, 4)
        fn(cache, ROWS, torch.tensor([2]))
    assert bool(cache[:, :, 2].any())


def test_gradients_on() -> None:
    """A forward graph of training copies, as torch does."""
    scale = torch.ones(4, requires_grad=True)

    def scaled(cache, rows, place):
        cache.index_copy_(2, place, rows)
        return (cache * scale).sum()

    ours, theirs = torch.zeros(1, 2, 6, 4), torch.zeros(1, 2, 6, 4)
    place = torch.tensor([3])
    compiled(scaled)(ours, ROWS, place).backward()
    gradient, scale.grad = scale.grad, None
    scaled(theirs, ROWS, place).backward()
    torch.testing.assert_close(gradient, scale.grad)
    assert torch.equal(ours, theirs)


def test_what_changes_the_memory_of_an_argument_is_torchs() -> None:
    def replaced(x, y):
        x.data = y
        return x * 2

    x, y = torch.randn(3), torch.randn(3)
    with pytest.raises(
        torch._dynamo.exc.BackendCompilerFailed, match=r"(set|data)_ on a graph input"
    ):
        compiled(replaced, fallback="error")(x, y)
    torch._dynamo.reset()
    torch.testing.assert_close(compiled(replaced, hints=False)(x, y), y * 2)
    assert x.data_ptr() == y.data_ptr()
