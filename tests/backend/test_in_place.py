"""Arguments that a graph writes in place, such as key caches: values, versions and layouts."""

from __future__ import annotations

import pytest
import torch

from ortable.backend.execute import call
from tests.backend.against_eager import compiled

ROWS = torch.randn(1, 2, 1, 4, generator=torch.Generator().manual_seed(0))


def write_and_sum(cache, rows, index):
    cache.index_copy_(2, index, rows)
    return cache.sum(-1) * 2


def read_and_write(cache, rows, index):
    old = cache * 3
    cache.index_copy_(2, index, rows)
    return old, cache + 1


def write_two(cache, second_cache, rows, index):
    cache.index_copy_(2, index, rows)
    second_cache.index_copy_(2, index, rows + 1)
    return (cache * second_cache).sum((-1, -2))


def compare(function, *args):
    """Compare a compiled function with eager; return the outputs that share memory with inputs."""
    shared = []
    original = call.in_place_runner

    def record_sources(session, sources):
        shared.append(dict(sources))
        return original(session, sources)

    compiled_args, eager_args = [[argument.clone() for argument in args] for _ in range(2)]
    with pytest.MonkeyPatch.context() as patch, torch.no_grad():
        patch.setattr(call, "in_place_runner", record_sources)
        fn = compiled(function)
        for _ in range(3):
            got, expected = fn(*compiled_args), function(*eager_args)
            torch.testing.assert_close(got, expected)
            torch.testing.assert_close(compiled_args, eager_args)
    return shared


def test_rows_are_written_where_the_cache_lies() -> None:
    assert len(compare(write_and_sum, torch.randn(1, 2, 6, 4), ROWS, torch.tensor([3]))[0]) == 1


def test_a_cache_that_is_read_elsewhere_is_copied() -> None:
    assert compare(read_and_write, torch.randn(1, 2, 6, 4), ROWS, torch.tensor([3])) == []


def test_two_caches() -> None:
    cache = torch.randn(1, 2, 6, 4)
    shared = compare(write_two, cache, cache + 1, ROWS, torch.tensor([5]))
    assert len(shared[0]) == 2


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.bool, torch.float16])
def test_dtypes(dtype) -> None:
    def write(cache, rows, index):
        cache.index_copy_(1, index, rows)
        return cache.clone()

    rows = torch.ones(3, 2).to(dtype)
    compare(write, torch.zeros(3, 5).to(dtype), rows, torch.tensor([4, 1]))


def test_pointer_and_version() -> None:
    cache, index = torch.zeros(1, 2, 6, 4), torch.tensor([0])
    fn = compiled(write_and_sum)
    with torch.no_grad():
        fn(cache, ROWS, index)
        pointer, version = cache.data_ptr(), cache._version
        fn(cache, ROWS, index + 2)
    assert cache.data_ptr() == pointer
    assert cache._version > version
    assert torch.equal(cache[:, :, [0, 2]], ROWS.expand(1, 2, 2, 4))
    assert not cache[:, :, [1, 3, 4, 5]].any()


def test_another_layout_than_traced() -> None:
    """A cache whose memory has gaps is copied and written back."""
    fn = compiled(write_and_sum)
    index = torch.tensor([1])
    with torch.no_grad():
        fn(torch.zeros(1, 2, 6, 4), ROWS, index)
        memory = torch.zeros(1, 2, 6, 8)
        cache = memory[..., ::2]
        got = fn(cache, ROWS, index)
        expected_cache = torch.zeros(1, 2, 6, 4)
        torch.testing.assert_close(got, write_and_sum(expected_cache, ROWS, index))
    assert torch.equal(cache, expected_cache)
    assert not memory[..., 1::2].any()


def test_an_index_out_of_range_is_an_error_and_the_next_call_is_right() -> None:
    fn = compiled(write_and_sum)
    cache = torch.zeros(1, 2, 6, 4)
    with torch.no_grad():
        fn(cache, ROWS, torch.tensor([0]))
        with pytest.raises(IndexError, match="index 9 is out of bounds for dimension 2"):
            fn(cache, ROWS, torch.tensor([9]))
        got = fn(cache, ROWS, torch.tensor([1]))
        expected_cache = torch.zeros(1, 2, 6, 4)
        write_and_sum(expected_cache, ROWS, torch.tensor([0]))
        torch.testing.assert_close(got, write_and_sum(expected_cache, ROWS, torch.tensor([1])))
    assert torch.equal(cache, expected_cache)


def test_inference_tensors_have_no_version() -> None:
    fn = compiled(write_and_sum)
    with torch.inference_mode():
        cache = torch.zeros(1, 2, 6, 4)
        fn(cache, ROWS, torch.tensor([2]))
    assert bool(cache[:, :, 2].any())


def test_gradients_on() -> None:
    """A training graph copies the cache, like torch."""
    scale = torch.ones(4, requires_grad=True)

    def write_and_scale(cache, rows, index):
        cache.index_copy_(2, index, rows)
        return (cache * scale).sum()

    compiled_cache, eager_cache = torch.zeros(1, 2, 6, 4), torch.zeros(1, 2, 6, 4)
    index = torch.tensor([3])
    compiled(write_and_scale)(compiled_cache, ROWS, index).backward()
    gradient, scale.grad = scale.grad, None
    write_and_scale(eager_cache, ROWS, index).backward()
    torch.testing.assert_close(gradient, scale.grad)
    assert torch.equal(compiled_cache, eager_cache)


def test_what_changes_the_memory_of_an_argument_is_torchs() -> None:
    def replace_data(x, y):
        x.data = y
        return x * 2

    x, y = torch.randn(3), torch.randn(3)
    with pytest.raises(
        torch._dynamo.exc.BackendCompilerFailed, match=r"(set|data)_ on a graph input"
    ):
        compiled(replace_data, fallback="error")(x, y)
    torch._dynamo.reset()
    torch.testing.assert_close(compiled(replace_data, hints=False)(x, y), y * 2)
    assert x.data_ptr() == y.data_ptr()
