"""An eval-mode module compiled with gradients enabled warns once, at the caller's line."""

from __future__ import annotations

import warnings

import pytest
import torch

from ortable.backend.aot import hints
from ortable.errors import GradientsOnWarning


@pytest.fixture(autouse=True)
def reset_warning(monkeypatch):
    monkeypatch.setattr(hints, "_grad_warned", False)


def make_model():
    return torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU())


def collect_warnings(call):
    """Return the `GradientsOnWarning`s of a call."""
    with warnings.catch_warnings(record=True) as records:
        warnings.simplefilter("always")
        call()
    return [warning for warning in records if warning.category is GradientsOnWarning]


def test_an_eval_model_under_gradients_hears_of_no_grad_once_at_its_line():
    compiled, x = torch.compile(make_model().eval(), backend="ortable"), torch.rand(2, 3)
    (warning,) = collect_warnings(lambda: compiled(x))
    text = str(warning.message)
    assert text.startswith("ortable compiles a Sequential in eval mode with gradients on")
    assert "torch.no_grad()" in text and "'hints': False" in text
    assert warning.filename == __file__
    recompiled = torch.compile(make_model().eval(), backend="ortable")
    assert collect_warnings(lambda: recompiled(torch.rand(5, 3))) == []


@pytest.mark.parametrize("grad", [torch.no_grad, torch.inference_mode])
def test_without_gradients_there_is_nothing_to_say(grad):
    compiled = torch.compile(make_model().eval(), backend="ortable")

    def call():
        with grad():
            compiled(torch.rand(2, 3))

    assert collect_warnings(call) == []


def test_who_trains_hears_nothing():
    compiled = torch.compile(make_model().train(), backend="ortable")
    assert collect_warnings(lambda: compiled(torch.rand(2, 3)).sum().backward()) == []


def test_an_eval_part_of_a_model_that_trains_is_no_eval_model():
    class Outer(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = torch.compile(make_model().eval(), backend="ortable")

        def forward(self, x):
            return self.inner(x)

    outer = Outer()
    outer.inner.eval()
    assert outer.training
    assert collect_warnings(lambda: outer(torch.rand(2, 3))) == []


def test_the_option_silences_it():
    compiled = torch.compile(make_model().eval(), backend="ortable", options={"hints": False})
    assert collect_warnings(lambda: compiled(torch.rand(2, 3))) == []


def test_frozen_weights_make_an_inference_graph():
    frozen = make_model().eval().requires_grad_(False)
    compiled = torch.compile(frozen, backend="ortable")
    assert collect_warnings(lambda: compiled(torch.rand(2, 3))) == []
