"""What the tests of frozen weights share: a model, its compiled form, and the sessions made."""

from __future__ import annotations

import pytest
import torch

from ortable.backend.execute.call import OrtBackend

BATCH = torch.linspace(-1, 1, 12).reshape(3, 4)
REST = 200  # more calls than any back-off of these tests asks for


def make_model():
    torch.manual_seed(0)
    return torch.nn.Sequential(
        torch.nn.Linear(4, 5), torch.nn.Tanh(), torch.nn.BatchNorm1d(5), torch.nn.Linear(5, 2)
    ).eval()


@pytest.fixture
def backends(monkeypatch):
    """Every `OrtBackend` that the test makes, with a list of the sessions that it asked for: True
    stands for one with constants."""
    made = []
    init = OrtBackend.__init__

    def noted_model(backend, model):
        backend.sessions.append(model is not backend.compiled.model)

    def noted(self, *args, **kwargs):
        init(self, *args, **kwargs)
        self.sessions = []
        make = self._make
        if make is not None:
            self._make = lambda model, *given: (noted_model(self, model), make(model, *given))[1]
        made.append(self)

    monkeypatch.setattr(OrtBackend, "__init__", noted)
    return made


def is_frozen(backend):
    return any(backend.session is found.session for found in backend._frozen_sets.values())


def check(compiled, model, batch=BATCH):
    with torch.no_grad():
        torch.testing.assert_close(compiled(batch), model(batch), rtol=1e-5, atol=1e-5)


def compile_frozen(model, backends, **options):
    compiled = torch.compile(model, backend="ortable", options=options or None)
    check(compiled, model)
    assert is_frozen(backends[-1])
    return compiled


def rests(compiled, model, backends):
    """Constants again after some calls, and right in all of them."""
    for _ in range(REST):
        check(compiled, model)
        if is_frozen(backends[-1]):
            break
    assert is_frozen(backends[-1])
    check(compiled, model)


def in_place(model):
    with torch.no_grad():
        model[0].weight.mul_(-0.9)
        model[3].bias.copy_(torch.ones(2))


def data_set(model):
    model[0].weight.data = torch.ones(5, 4)
