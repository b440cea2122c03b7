"""Short sessions between torch operators have one thread, as torch's threads still spin."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from tests.backend.against_eager import assert_close


@pytest.fixture(autouse=True)
def two_threads():
    previous_count = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(previous_count)


class Bags(nn.Module):
    """An embedding bag, which torch runs, and a linear layer."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.bag = nn.EmbeddingBag(20, 16, mode="sum")
        self.linear = nn.Linear(16, width)

    def forward(self, ids, offsets):
        return F.relu(self.linear(self.bag(ids, offsets)))


def make_batch(count):
    return torch.randint(20, (3 * count,)), torch.arange(0, 3 * count, 3)


@pytest.fixture
def count_threads(backends):
    """Return a function that compares a module with eager and returns its session thread counts."""

    def run_and_count(module, arguments, grad=False, **options):
        backends.clear()
        compiled = torch.compile(module, backend="ortable", options=options)
        with torch.set_grad_enabled(grad):
            assert_close([compiled(*arguments)], [module(*arguments)])
        sessions = [backend.session for backend in backends if backend.session is not None]
        return {backend.get_session_options().intra_op_num_threads for backend in sessions}

    return run_and_count


def test_little_beside_operators_of_torch_is_done_by_one_thread(count_threads):
    assert count_threads(Bags(8), make_batch(32)) == {1}


def test_many_numbers_are_shared_by_threads(count_threads):
    assert count_threads(Bags(64), make_batch(4096)) == {2}


def test_large_products_are_shared_by_threads(count_threads):
    class Powers(Bags):
        def forward(self, ids, offsets):
            x = self.linear(self.bag(ids, offsets))
            for _ in range(3):
                x = x @ x / 100
            return x

    assert count_threads(Powers(128), make_batch(128)) == {1}
    assert count_threads(Powers(192), make_batch(192)) == {2}


def test_long_attention_is_shared_by_threads(count_threads):
    """Attention is always long in older versions of torch, which have no FLOP formula for it."""

    class Attention(Bags):
        def forward(self, ids, offsets):
            x = self.bag(ids, offsets).view(1, 1, -1, 16)
            return F.scaled_dot_product_attention(x, x, x)

    assert count_threads(Attention(8), make_batch(1024)) == {2}


def test_large_weights_count(count_threads):
    assert count_threads(Bags(8_000), make_batch(4)) == {1}
    assert count_threads(Bags(16_000), make_batch(4)) == {2}


def test_what_trains_counts_as_beside_operators_of_torch(count_threads):
    assert count_threads(nn.Linear(16, 8), [torch.randn(4, 16)], grad=True) == {1}
    assert count_threads(nn.Linear(512, 512), [torch.randn(64, 512)], grad=True) == {2}


def test_a_whole_graph_for_inference_has_torchs_threads(count_threads):
    assert count_threads(nn.Linear(16, 8), [torch.randn(4, 16)]) == {2}


def test_threads_that_the_user_asks_for_are_kept(count_threads):
    settings = {"intra_op_num_threads": 2}
    assert count_threads(Bags(8), make_batch(32), session_options=settings) == {2}
