"""Sessions beside operators of torch that compute little have one thread: others would come late,
behind torch's threads, which still look for work."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from tests.backend.against_eager import assert_close


@pytest.fixture(autouse=True)
def two_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


class Bags(nn.Module):
    """An embedding bag, which torch runs, and a layer of its sums."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.bag = nn.EmbeddingBag(20, 16, mode="sum")
        self.linear = nn.Linear(16, width)

    def forward(self, ids, offsets):
        return F.relu(self.linear(self.bag(ids, offsets)))


def batch(count):
    return torch.randint(20, (3 * count,)), torch.arange(0, 3 * count, 3)


@pytest.fixture
def thread_counts(backends):
    """The threads of the sessions of a compiled module, which is right."""

    def counts(module, arguments, grad=False, **options):
        backends.clear()
        run = torch.compile(module, backend="ortable", options=options)
        with torch.set_grad_enabled(grad):
            assert_close([run(*arguments)], [module(*arguments)])
        sessions = [each.session for each in backends if each.session is not None]
        return {each.get_session_options().intra_op_num_threads for each in sessions}

    return counts


def test_little_beside_operators_of_torch_is_done_by_one_thread(thread_counts):
    assert thread_counts(Bags(8), batch(32)) == {1}


def test_many_numbers_are_shared_by_threads(thread_counts):
    assert thread_counts(Bags(64), batch(4096)) == {2}


def test_large_products_are_shared_by_threads(thread_counts):
    class Powers(Bags):
        def forward(self, ids, offsets):
            x = self.linear(self.bag(ids, offsets))
            for _ in range(3):
                x = x @ x / 100
            return x

    assert thread_counts(Powers(128), batch(128)) == {1}
    assert thread_counts(Powers(192), batch(192)) == {2}


def test_long_attention_is_shared_by_threads(thread_counts):
    """Older versions of torch have no formula for it on the CPU: there it is always long."""

    class Attention(Bags):
        def forward(self, ids, offsets):
            x = self.bag(ids, offsets).view(1, 1, -1, 16)
            return F.scaled_dot_product_attention(x, x, x)

    assert thread_counts(Attention(8), batch(1024)) == {2}


def test_large_weights_count(thread_counts):
    assert thread_counts(Bags(8_000), batch(4)) == {1}
    assert thread_counts(Bags(16_000), batch(4)) == {2}


def test_what_trains_counts_as_beside_operators_of_torch(thread_counts):
    assert thread_counts(nn.Linear(16, 8), [torch.randn(4, 16)], grad=True) == {1}
    assert thread_counts(nn.Linear(512, 512), [torch.randn(64, 512)], grad=True) == {2}


def test_a_whole_graph_for_inference_has_torchs_threads(thread_counts):
    assert thread_counts(nn.Linear(16, 8), [torch.randn(4, 16)]) == {2}


def test_threads_that_the_user_asks_for_are_kept(thread_counts):
    settings = {"intra_op_num_threads": 2}
    assert thread_counts(Bags(8), batch(32), session_options=settings) == {2}
