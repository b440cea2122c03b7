"""Writes into weights that torch does not count: `weight.data += delta`, as EMA, hand-written
optimizers and PEFT do it. Results equal eager's after every step."""

from __future__ import annotations

import copy
import sys

import peft
import pytest
import torch

import ortable
from tests.backend.freezing import check, is_frozen, rests

X = torch.linspace(-1, 1, 128).reshape(2, 64)


class Wide(torch.nn.Module):
    """A weight of 16 KB, of which a call reads samples, and small ones, which it reads whole."""

    def __init__(self):
        super().__init__()
        self.q = torch.nn.Linear(64, 64)
        self.norm = torch.nn.LayerNorm(64)
        self.out = torch.nn.Linear(64, 3)

    def forward(self, x):
        return self.out(self.norm(torch.relu(self.q(x))))


def data_added(model):
    model.q.weight.data += 0.1 * torch.randn(64, 64)


def average(model):
    for p in model.parameters():
        p.data.copy_(0.9 * p.data + 0.1 * torch.randn_like(p))


def gradient_step(model):
    model(X).sum().backward()
    for p in model.parameters():
        p.data -= 0.05 * p.grad
        p.grad = None


def array(model):
    model.q.weight.detach().numpy()[:] *= 1.5


def a_part(model):
    model.q.weight.data[21:43] *= 2  # as the keys of a fused projection


def small(model):
    model.norm.bias.data[37] += 1


@pytest.mark.parametrize(
    "write", [data_added, average, gradient_step, array, a_part, small], ids=lambda f: f.__name__
)
def test_writes_through_data_are_seen(write, backends):
    model = Wide().eval()
    compiled = torch.compile(model, backend="ortable")
    check(compiled, model, X)
    assert is_frozen(backends[-1])
    for _ in range(2):
        write(model)
        check(compiled, model, X)
        rests(lambda batch: compiled(X), lambda batch: model(X), backends)
    assert len(backends) == 1 or write is gradient_step  # which runs the model in grad mode


def test_moving_averages_of_torch(backends):
    model = Wide().eval()
    averaged = torch.optim.swa_utils.AveragedModel(
        model, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.9)
    ).eval()
    compiled = torch.compile(averaged, backend="ortable")
    for _ in range(3):
        data_added(model)
        averaged.update_parameters(model)
        check(compiled, averaged, X)
    assert len(backends) == 1


def row(model):
    model.q.weight.data[1] = 3  # between two samples


def a_fifth(model):
    model.q.weight.data[5:18] *= -2


def mask(model):
    kept = torch.ones(64, 64)
    kept[3::7, 33::5] = -2
    model.q.weight.data *= kept


@pytest.mark.parametrize("write", [row, a_fifth, mask], ids=lambda f: f.__name__)
def test_samples_miss_what_docs_say_and_refresh_is_the_remedy(write, backends):
    model = Wide().eval()
    compiled = torch.compile(model, backend="ortable")
    check(compiled, model, X)
    with torch.no_grad():
        before = model(X)
        write(model)
        assert not torch.allclose(model(X), before, rtol=1e-3)
        torch.testing.assert_close(compiled(X), before)
    ortable.refresh(model)
    check(compiled, model, X)
    rests(lambda batch: compiled(X), lambda batch: model(X), backends)


def test_a_session_of_before_is_not_shared(backends):
    model = Wide().eval()
    check(torch.compile(model, backend="ortable"), model, X)
    assert is_frozen(backends[0])  # and lives on, with its session
    data_added(model)
    torch._dynamo.reset()
    check(torch.compile(model, backend="ortable"), model, X)
    assert len(backends) == 2


def adapted(**settings):
    torch.manual_seed(0)
    config = peft.LoraConfig(target_modules=["q"], r=2, init_lora_weights=False)
    storage = {}
    model = peft.get_peft_model(Wide(), config).eval()
    options = {"storage": storage, **settings}
    return model, torch.compile(model, backend="ortable", options=options), storage


def merged_again_and_again(model, compiled):
    """Merge, unmerge, train, merge: PEFT counts on reading what it wrote."""
    check(compiled, model, X)
    for _ in range(2):
        model.merge_adapter()
        check(compiled, model, X)
        model.unmerge_adapter()
        check(compiled, model, X)
        with torch.no_grad():
            model.base_model.model.q.lora_B["default"].weight.add_(0.3)
        check(compiled, model, X)


def test_adapters_of_peft_are_merged_and_unmerged(backends):
    model, compiled, storage = adapted()
    merged_again_and_again(model, compiled)
    assert len(storage["instance"]) == 2  # with the adapter, and merged
    for record in storage["instance"]:
        constant = {role.shape for role in record["inputs"] if role.name in record["frozen"]}
        assert constant == {(64,), (3, 64), (3,)}, "weights of PEFT's layers are inputs"
        assert sum(role.untracked_writes for role in record["inputs"]) in (2, 4)


def test_weights_of_peft_are_constants_on_demand_with_a_warning(backends):
    model, compiled, storage = adapted(freeze="on")
    with pytest.warns(RuntimeWarning, match=r"merge_adapter.*ortable.refresh"):
        merged_again_and_again(model, compiled)
    assert not any(role.untracked_writes for r in storage["instance"] for role in r["inputs"])


def test_without_peft_a_layer_of_that_name_has_constants(backends, monkeypatch):
    class Wrapping(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.base_layer = torch.nn.Linear(64, 3)

        def forward(self, x):
            return self.base_layer(x)

    model = torch.nn.Sequential(Wrapping())
    monkeypatch.delitem(sys.modules, "peft")
    compiled = torch.compile(model, backend="ortable")
    check(compiled, model, X)
    assert is_frozen(backends[-1])
    assert len(backends[-1].frozen) == 2
    assert "peft" not in sys.modules


def test_a_merged_and_unloaded_model_has_constants(backends):
    model, _, _ = adapted()
    plain = copy.deepcopy(model).merge_and_unload().eval()
    compiled = torch.compile(plain, backend="ortable")
    check(compiled, plain, X)
    assert is_frozen(backends[-1])
    assert len(backends[-1].frozen) == 6
