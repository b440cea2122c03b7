"""torch's OpenMP threads are ended before long sessions of graphs that train, and torch has new
ones when it needs them."""

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
def pauses(monkeypatch):
    """The arguments of the calls of `omp_pause_resource_all`, none of which happens."""
    calls = []
    monkeypatch.setattr(runner, "_find_omp_pause", lambda: calls.append)
    return calls


@pytest.fixture
def threads():
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def threads_of_process():
    with open("/proc/self/status") as lines:
        return next(int(line.split()[1]) for line in lines if line.startswith("Threads:"))


def test_a_run_after_a_long_one_ends_the_threads_first(pauses):
    run = pause_openmp_threads(lambda seconds: time.sleep(seconds) or seconds)
    assert run(0.02) == 0.02 and pauses == []
    assert run(0.0) == 0.0 and pauses == [1]
    assert run(0.0) == 0.0 and pauses == [1]


def test_an_error_of_the_run_comes_through(pauses):
    run = pause_openmp_threads(lambda: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        run()


def test_without_such_a_function_nothing_changes(monkeypatch):
    monkeypatch.setattr(runner, "_find_omp_pause", lambda: None)
    assert pause_openmp_threads(len) is len


@LINUX
def test_threads_of_torch_end_and_come_back(threads):
    torch.set_num_threads(3)
    pause = runner._find_omp_pause()
    x = torch.arange(1_000_000.0)
    expected = (x + x)[-1].item()
    running = threads_of_process()
    assert pause(1) == 0
    assert threads_of_process() == running - 2
    assert pause(1) == 0  # nothing is left to end
    assert (x + x)[-1].item() == expected
    assert threads_of_process() == running
    assert torch.get_num_threads() == 3


@pytest.mark.parametrize("count", [1, 2])
def test_training_is_right_when_every_session_ends_them(monkeypatch, threads, count):
    """Sessions alternate with a convolution, whose gradient torch runs, and with the optimizer."""
    monkeypatch.setattr(runner, "_LONG_RUN", 0.0)
    torch.set_num_threads(count)
    net = nn.Sequential(nn.Conv2d(2, 8, 3), nn.GELU(), nn.Flatten(), nn.Linear(8 * 36, 256))
    eager = copy.deepcopy(net)
    run = torch.compile(net, backend="ortable")
    steps = [torch.optim.SGD(each.parameters(), lr=0.1) for each in (net, eager)]
    for _ in range(4):
        x = torch.randn(256, 2, 8, 8)
        for each, step in zip((run, eager), steps, strict=True):
            step.zero_grad()
            each(x).square().mean().backward()
            step.step()
        assert_close(list(net.parameters()), list(eager.parameters()))


@pytest.mark.parametrize(
    ("count", "grad", "ended"), [(2, True, True), (2, False, False), (1, True, False)]
)
def test_what_trains_with_several_threads_ends_them(
    monkeypatch, pauses, threads, count, grad, ended
):
    monkeypatch.setattr(runner, "_LONG_RUN", 0.0)
    torch.set_num_threads(count)
    net = nn.Sequential(nn.Linear(64, 256), nn.Tanh(), nn.Linear(256, 8))
    run = torch.compile(net, backend="ortable")
    x = torch.randn(1024, 64)
    with torch.set_grad_enabled(grad):
        run(x)
        assert pauses == []
        torch.testing.assert_close(run(x), net(x))
    assert bool(pauses) is ended


def test_threads_that_train_at_once_end_their_own(monkeypatch, threads):
    monkeypatch.setattr(runner, "_LONG_RUN", 0.0)
    torch.set_num_threads(2)
    net = nn.Sequential(nn.Linear(64, 256), nn.Tanh(), nn.Linear(256, 8))
    run = torch.compile(net, backend="ortable")
    x = torch.randn(1024, 64)
    expected = torch.autograd.grad(net(x).square().sum(), list(net.parameters()))
    torch.autograd.grad(run(x).square().sum(), list(net.parameters()))

    def train(_):
        for _ in range(10):
            (x + x).sum()  # torch's threads, of this thread
            got = torch.autograd.grad(run(x).square().sum(), list(net.parameters()))
            assert_close(list(got), list(expected))

    in_threads(3, train)
