"""Results equal eager's after writes that torch does not count, as EMA, optimizers and PEFT do."""

from __future__ import annotations

import copy
import sys

import peft
import pytest
import torch

import ortable
from tests.backend.freezing import check, is_frozen, rests

X = torch.linspace(-1, 1, 128).reshape(2, 64)


class WideModel(torch.nn.Module):
    """A weight of 16 KB, which calls check by samples, and small weights, checked entirely."""

    def __init__(self):
        super().__init__()
        self.q = torch.nn.Linear(64, 64)
        self.norm = torch.nn.LayerNorm(64)
        self.out = torch.nn.Linear(64, 3)

    def forward(self, x):
        return self.out(self.norm(torch.relu(self.q(x))))


def add_data(model):
    model.q.weight.data += 0.1 * torch.randn(64, 64)


def average_weights(model):
    for p in model.parameters():
        p.data.copy_(0.9 * p.data + 0.1 * torch.randn_like(p))


def apply_gradient(model):
    model(X).sum().backward()
    for p in model.parameters():
        p.data -= 0.05 * p.grad
        p.grad = None


def write_numpy(model):
    model.q.weight.detach().numpy()[:] *= 1.5


def write_rows(model):
    model.q.weight.data[21:43] *= 2  # the keys of a fused projection


def write_one_element(model):
    model.norm.bias.data[37] += 1


@pytest.mark.parametrize(
    "write",
    [add_data, average_weights, apply_gradient, write_numpy, write_rows, write_one_element],
    ids=lambda f: f.__name__,
)
def test_writes_through_data_are_seen(write, backends):
    model = WideModel().eval()
    compiled = torch.compile(model, backend="ortable")
    check(compiled, model, X)
    assert is_frozen(backends[-1])
    for _ in range(2):
        write(model)
        check(compiled, model, X)
        rests(lambda batch: compiled(X), lambda batch: model(X), backends)
    assert len(backends) == 1 or write is apply_gradient  # runs the model in grad mode, too


def test_moving_averages_of_torch(backends):
    model = WideModel().eval()
    average = torch.optim.swa_utils.AveragedModel(
        model, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.9)
    ).eval()
    compiled = torch.compile(average, backend="ortable")
    for _ in range(3):
        add_data(model)
        average.update_parameters(model)
        check(compiled, average, X)
    assert len(backends) == 1


def write_row(model):
    model.q.weight.data[1] = 3  # a row between two samples


def write_fifth(model):
    model.q.weight.data[5:18] *= -2


def write_masked(model):
    factors = torch.ones(64, 64)
    factors[3::7, 33::5] = -2
    model.q.weight.data *= factors


@pytest.mark.parametrize("write", [write_row, write_fifth, write_masked], ids=lambda f: f.__name__)
def test_samples_miss_what_docs_say_and_refresh_is_the_remedy(write, backends):
    model = WideModel().eval()
    compiled = torch.compile(model, backend="ortable")
    check(compiled, model, X)
    with torch.no_grad():
        result_before = model(X)
        write(model)
        assert not torch.allclose(model(X), result_before, rtol=1e-3)
        torch.testing.assert_close(compiled(X), result_before)
    ortable.refresh(model)
    check(compiled, model, X)
    rests(lambda batch: compiled(X), lambda batch: model(X), backends)


def test_a_session_of_before_is_not_shared(backends):
    model = WideModel().eval()
    check(torch.compile(model, backend="ortable"), model, X)
    assert is_frozen(backends[0])  # and stays alive, with its session
    add_data(model)
    torch._dynamo.reset()
    check(torch.compile(model, backend="ortable"), model, X)
    assert len(backends) == 2


def make_adapted(**settings):
    torch.manual_seed(0)
    config = peft.LoraConfig(target_modules=["q"], r=2, init_lora_weights=False)
    storage = {}
    model = peft.get_peft_model(WideModel(), config).eval()
    options = {"storage": storage, **settings}
    return model, torch.compile(model, backend="ortable", options=options), storage


def check_merging(model, compiled):
    """Merge, unmerge and train twice; PEFT relies on reading the weights that it wrote."""
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
    model, compiled, storage = make_adapted()
    check_merging(model, compiled)
    assert len(storage["instance"]) == 2  # one with the adapter, one merged
    for record in storage["instance"]:
        frozen_shapes = {role.shape for role in record["inputs"] if role.name in record["frozen"]}
        assert frozen_shapes == {(64,), (3, 64), (3,)}, "weights of PEFT's layers should be inputs"
        assert sum(role.untracked_writes for role in record["inputs"]) in (2, 4)


def test_weights_of_peft_are_constants_on_demand_with_a_warning(backends):
    model, compiled, storage = make_adapted(freeze="on")
    with pytest.warns(RuntimeWarning, match=r"merge_adapter.*ortable.refresh"):
        check_merging(model, compiled)
    assert not any(role.untracked_writes for r in storage["instance"] for role in r["inputs"])


def test_without_peft_a_layer_of_that_name_has_constants(backends, monkeypatch):
    class Wrapper(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.base_layer = torch.nn.Linear(64, 3)

        def forward(self, x):
            return self.base_layer(x)

    model = torch.nn.Sequential(Wrapper())
    monkeypatch.delitem(sys.modules, "peft")
    compiled = torch.compile(model, backend="ortable")
    check(compiled, model, X)
    assert is_frozen(backends[-1])
    assert len(backends[-1].frozen) == 2
    assert "peft" not in sys.modules


def test_a_merged_and_unloaded_model_has_constants(backends):
    model, _, _ = make_adapted()
    merged_model = copy.deepcopy(model).merge_and_unload().eval()
    compiled = torch.compile(merged_model, backend="ortable")
    check(compiled, merged_model, X)
    assert is_frozen(backends[-1])
    assert len(backends[-1].frozen) == 6
