"""Helpers for the tests of frozen weights: a model, its compiled form and its sessions."""

from __future__ import annotations

import pytest
import torch

from ortable.backend.execute.call import OrtBackend

BATCH = torch.linspace(-1, 1, 12).reshape(3, 4)
MAX_CALLS = 200  # more calls than any back-off in these tests lasts


def make_model():
    torch.manual_seed(0)
    return torch.nn.Sequential(
        torch.nn.Linear(4, 5), torch.nn.Tanh(), torch.nn.BatchNorm1d(5), torch.nn.Linear(5, 2)
    ).eval()


@pytest.fixture
def backends(monkeypatch):
    """Return a list of the `OrtBackend`s that the test creates.

    Each has a list `sessions`, with an item per session created: True if its weights are constants.
    """
    instances = []
    init = OrtBackend.__init__

    def record_session(backend, model):
        backend.sessions.append(model is not backend.compiled.model)

    def init_and_record(self, *args, **kwargs):
        init(self, *args, **kwargs)
        self.sessions = []
        make = self._make
        if make is not None:
            self._make = lambda model, *rest: (record_session(self, model), make(model, *rest))[1]
        instances.append(self)

    monkeypatch.setattr(OrtBackend, "__init__", init_and_record)
    return instances


def is_frozen(backend):
    return any(
        backend.session is weight_set.session for weight_set in backend._frozen_sets.values()
    )


def check(compiled, model, batch=BATCH):
    with torch.no_grad():
        torch.testing.assert_close(compiled(batch), model(batch), rtol=1e-5, atol=1e-5)


def compile_frozen(model, backends, **options):
    compiled = torch.compile(model, backend="ortable", options=options or None)
    check(compiled, model)
    assert is_frozen(backends[-1])
    return compiled


def rests(compiled, model, backends):
    """Check that weights become constants again after some calls, and that every call is right."""
    for _ in range(MAX_CALLS):
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
