"""Ctrl-C while a model is compiled or called: the next call is right, nobody waits for a lock, and
weights are those of before or after."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch

from ortable.backend.cache.memory import conversions
from tests.rotation import turn

from .interrupts import drawn, interrupted

COUNT = 6  # interrupts a program; the sweeps do more
X = torch.linspace(-1, 1, 12).reshape(3, 4)


class Counting(torch.nn.Module):
    """Counts its calls in a buffer, in place."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(4, 5), torch.nn.Tanh())
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls.add_(1)
        return self.layers(x) * self.calls


def _train(model: Any, module: torch.nn.Module) -> None:
    module.zero_grad()
    model(X).sum().backward()


def _infer(model: Any, module: torch.nn.Module) -> None:
    """Enough calls for weights to become constants, and to be inputs again."""
    with torch.no_grad():
        for _ in range(3):
            model(X)
        module.get_parameter("layers.0.weight").mul_(0.5)
        model(X)


def _expected(module: torch.nn.Module, run: Callable[..., Any]) -> list[torch.Tensor]:
    """Result, gradients and state of one more run."""
    module.zero_grad()
    result = run(X)
    result.sum().backward()
    grads = [each.grad.clone() for each in module.parameters() if each.grad is not None]
    with torch.no_grad():
        return [result.detach(), *grads, run(X), *(b.clone() for b in module.state_dict().values())]


def _after_an_interrupt(seed: int, count: int, work: Callable[[Any, Any], None]) -> None:
    module = Counting()
    state = {name: value.clone() for name, value in module.state_dict().items()}

    def compiled(**options: Any) -> Any:
        torch._dynamo.reset()
        conversions.clear()
        module.load_state_dict(state)
        return torch.compile(module, backend="ortable", options=options)

    work(compiled(), module)  # what is done once in a process is done
    model = compiled()
    lines = interrupted(-1, lambda: work(model, module))
    assert len(lines.run) > 1000
    for at in drawn(lines, count, random.Random(seed)):
        model = compiled()
        stopped = interrupted(at, partial(work, model, module))
        halfway = {name: value.clone() for name, value in module.state_dict().items()}
        assert float(halfway["calls"]) in range(5), stopped.where
        got = _expected(module, model)
        module.load_state_dict(halfway)
        wanted = _expected(module, module)
        said = partial("{}: {}".format, stopped.where)
        torch.testing.assert_close(got, wanted, msg=said)


@pytest.mark.parametrize("work", [_train, _infer])
def test_the_call_after_an_interrupt_is_right(work: Any) -> None:
    _after_an_interrupt(turn(), COUNT, work)


@pytest.mark.slow
@pytest.mark.parametrize("work", [_train, _infer])
def test_many_interrupts(work: Any) -> None:
    _after_an_interrupt(turn() + 1, 5 * COUNT, work)
