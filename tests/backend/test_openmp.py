"""Long sessions of training graphs end torch's OpenMP threads, which torch restarts when needed."""

from __future__ import annotations

import copy
import sys
import time

import pytest
import torch
from torch import nn

from ortable.backend.execute import runner
from ortable.backend.execute.runner import pause_openmp_threads
from tests.backend.against_eager import assert_close
from tests.backend.threads import in_threads

LINUX = pytest.mark.skipif(sys.platform != "linux", reason="torch's OpenMP library of Linux")


@pytest.fixture
def pause_calls(monkeypatch):
    """Replace `omp_pause_resource_all` by a stub that records the arguments of its calls."""
    arguments = []
    monkeypatch.setattr(runner, "_find_omp_pause", lambda: arguments.append)
    return arguments


@pytest.fixture
def restored_thread_count():
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def count_process_threads():
    with open("/proc/self/status") as lines:
        return next(int(line.split()[1]) for line in lines if line.startswith("Threads:"))


def test_a_run_after_a_long_one_ends_the_threads_first(pause_calls):
    run = pause_openmp_threads(lambda seconds: time.sleep(seconds) or seconds)
    assert run(0.02) == 0.02 and pause_calls == []
    assert run(0.0) == 0.0 and pause_calls == [1]
    assert run(0.0) == 0.0 and pause_calls == [1]


def test_an_error_of_the_run_comes_through(pause_calls):
    run = pause_openmp_threads(lambda: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        run()


def test_without_such_a_function_nothing_changes(monkeypatch):
    monkeypatch.setattr(runner, "_find_omp_pause", lambda: None)
    assert pause_openmp_threads(len) is len


@LINUX
def test_threads_of_torch_end_and_come_back(restored_thread_count):
    torch.set_num_threads(3)
    pause = runner._find_omp_pause()
    x = torch.arange(1_000_000.0)
    expected = (x + x)[-1].item()
    thread_count = count_process_threads()
    assert pause(1) == 0
    assert count_process_threads() == thread_count - 2
    assert pause(1) == 0
    assert (x + x)[-1].item() == expected
    assert count_process_threads() == thread_count
    assert torch.get_num_threads() == 3


@pytest.mark.parametrize("count", [1, 2])
def test_training_is_right_when_every_session_ends_them(monkeypatch, restored_thread_count, count):
    """Sessions alternate with the optimizer and with torch's gradient of a convolution."""
    monkeypatch.setattr(runner, "_LONG_RUN", 0.0)
    torch.set_num_threads(count)
    net = nn.Sequential(nn.Conv2d(2, 8, 3), nn.GELU(), nn.Flatten(), nn.Linear(8 * 36, 256))
    eager_net = copy.deepcopy(net)
    compiled = torch.compile(net, backend="ortable")
    optimizers = [torch.optim.SGD(model.parameters(), lr=0.1) for model in (net, eager_net)]
    for _ in range(4):
        x = torch.randn(256, 2, 8, 8)
        for model, optimizer in zip((compiled, eager_net), optimizers, strict=True):
            optimizer.zero_grad()
            model(x).square().mean().backward()
            optimizer.step()
        assert_close(list(net.parameters()), list(eager_net.parameters()))


@pytest.mark.parametrize(
    ("count", "grad", "ends_threads"), [(2, True, True), (2, False, False), (1, True, False)]
)
def test_what_trains_with_several_threads_ends_them(
    monkeypatch, pause_calls, restored_thread_count, count, grad, ends_threads
):
    monkeypatch.setattr(runner, "_LONG_RUN", 0.0)
    torch.set_num_threads(count)
    net = nn.Sequential(nn.Linear(64, 256), nn.Tanh(), nn.Linear(256, 8))
    compiled = torch.compile(net, backend="ortable")
    x = torch.randn(1024, 64)
    with torch.set_grad_enabled(grad):
        compiled(x)
        assert pause_calls == []
        torch.testing.assert_close(compiled(x), net(x))
    assert bool(pause_calls) is ends_threads


def test_threads_that_train_at_once_end_their_own(monkeypatch, restored_thread_count):
    monkeypatch.setattr(runner, "_LONG_RUN", 0.0)
    torch.set_num_threads(2)
    net = nn.Sequential(nn.Linear(64, 256), nn.Tanh(), nn.Linear(256, 8))
    compiled = torch.compile(net, backend="ortable")
    x = torch.randn(1024, 64)
    expected = torch.autograd.grad(net(x).square().sum(), list(net.parameters()))
    torch.autograd.grad(compiled(x).square().sum(), list(net.parameters()))

    def train(_):
        for _ in range(10):
            (x + x).sum()  # starts the OpenMP threads of this Python thread
            gradients = torch.autograd.grad(compiled(x).square().sum(), list(net.parameters()))
            assert_close(list(gradients), list(expected))

    in_threads(3, train)
