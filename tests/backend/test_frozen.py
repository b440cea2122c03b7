"""Weights as session constants: no change gives a stale result, and stable weights freeze again."""

from __future__ import annotations

import pytest
import torch

import ortable
from ortable.errors import OptionError
from tests.backend.freezing import (
    BATCH,
    check,
    compile_frozen,
    data_set,
    in_place,
    is_frozen,
    make_model,
    rests,
)


def make_optimizer_change(kind, **options):
    def change(model):
        stepper = getattr(torch.optim, kind)(model.parameters(), lr=0.05, **options)
        model(BATCH).sum().backward()
        stepper.step()
        stepper.zero_grad()

    return change


def write_in_inference_mode(model):
    with torch.inference_mode():
        model[0].weight.add_(1)


def write_view(model):
    with torch.no_grad():
        model[0].weight[0].fill_(0.5)


def write_buffer(model):
    model[2].running_mean.add_(0.25)


def load_state(model):
    model.load_state_dict({k: v + 1 for k, v in model.state_dict().items()})


def assign_state(model):
    model.load_state_dict({k: v + 1 for k, v in model.state_dict().items()}, assign=True)


def set_data_twice(model):
    """The second tensor may have the address of the first weight."""
    model[0].weight.data = model[0].weight.data * 2
    model[0].weight.data = model[0].weight.data * 2


def replace_parameter(model):
    model[0].weight = torch.nn.Parameter(torch.ones(5, 4))


def replace_parameter_in_same_memory(model):
    """The new parameter's version starts at 0 and reaches that of the old one."""
    version = model[0].weight._version
    model[0].weight = torch.nn.Parameter(model[0].weight.data)
    with torch.no_grad():
        while model[0].weight._version <= version:
            model[0].weight.add_(1)


def move_to_double_and_back(model):
    model.to(torch.float64).to(torch.float32)
    model[0].weight.data.mul_(2)


def load_vector(model):
    values = torch.nn.utils.parameters_to_vector(model.parameters())
    torch.nn.utils.vector_to_parameters(values.detach() * 2, model.parameters())


def swap_tensors(model):
    torch.utils.swap_tensors(model[0].weight, torch.nn.Parameter(torch.ones(5, 4)))


def set_storage(model):
    with torch.no_grad():
        model[0].weight.set_(torch.ones(5, 4))


CHANGES = [
    make_optimizer_change("SGD", foreach=True),
    make_optimizer_change("SGD", foreach=False),
    make_optimizer_change("SGD", fused=True),
    make_optimizer_change("Adam", foreach=True),
    make_optimizer_change("Adam", fused=True),
    make_optimizer_change("AdamW", fused=True),
    in_place,
    write_in_inference_mode,
    write_view,
    write_buffer,
    load_state,
    assign_state,
    data_set,
    set_data_twice,
    replace_parameter,
    replace_parameter_in_same_memory,
    move_to_double_and_back,
    load_vector,
    swap_tensors,
    set_storage,
]
NAMES = [
    "sgd",
    "sgd loop",
    "sgd fused",
    "adam",
    "adam fused",
    "adamw fused",
    *(c.__name__ for c in CHANGES[6:]),
]


@pytest.mark.parametrize("change", CHANGES, ids=NAMES)
def test_a_change_is_seen_at_once_and_constants_come_back(change, backends):
    model = make_model()
    compiled = compile_frozen(model, backends)
    backend_count = len(backends)
    with torch.no_grad():
        original = compiled(BATCH)
    for _ in range(2):
        change(model)
        check(compiled, model)
        with torch.no_grad():
            assert not torch.allclose(compiled(BATCH), original)
        rests(compiled, model, backends)
    assert len(backends) == backend_count


@pytest.mark.parametrize("change", CHANGES, ids=NAMES)
def test_a_change_is_seen_by_weights_that_are_inputs(change):
    model = make_model()
    compiled = torch.compile(model, backend="ortable", options={"freeze": "off"})
    check(compiled, model)
    for _ in range(2):
        change(model)
        check(compiled, model)
        check(compiled, model)


def test_fused_optimizers_count_no_version():
    """This is why optimizer steps are hooked."""
    weight = torch.nn.Parameter(torch.ones(3))
    weight.grad = torch.ones(3)
    version = weight._version
    torch.optim.Adam([weight], fused=True).step()
    assert weight._version == version


def test_an_optimizer_of_the_users_that_writes_through_data(backends):
    class DataOptimizer(torch.optim.Optimizer):
        def __init__(self, parameters):
            super().__init__(parameters, {})

        def step(self):
            for group in self.param_groups:
                for parameter in group["params"]:
                    parameter.data.mul_(2)

    model = make_model()
    compiled = compile_frozen(model, backends)
    DataOptimizer(model.parameters()).step()
    check(compiled, model)


def test_steps_of_another_models_optimizer_change_nothing(backends):
    model, other_model = make_model(), make_model()
    compiled = compile_frozen(model, backends)
    make_optimizer_change("Adam", fused=True)(other_model)
    check(compiled, model)
    assert is_frozen(backends[-1])
    assert backends[-1].sessions == [True]


@pytest.mark.parametrize("target", ["all", "module", "compiled", "tensor"])
def test_refresh_after_a_write_that_leaves_no_trace(target, backends):
    model = torch.nn.Sequential(torch.nn.Linear(4, 512), torch.nn.Linear(512, 2))
    compiled = compile_frozen(model, backends)
    model[0].weight.data[1] = 9  # only one of many rows
    args = {"all": (), "module": (model,), "compiled": (compiled,), "tensor": (model[0].weight,)}
    ortable.refresh(*args[target])
    check(compiled, model)
    rests(compiled, model, backends)


def test_refresh_of_another_module_keeps_the_constants(backends):
    model = make_model()
    compiled = compile_frozen(model, backends)
    ortable.refresh(make_model())
    check(compiled, model)
    assert backends[-1].sessions == [True]


def test_refresh_names_what_it_takes():
    with pytest.raises(TypeError, match="module, a tensor or no argument, not a str"):
        ortable.refresh("model")


def test_the_unfrozen_session_is_made_when_it_is_needed_only(backends):
    model = make_model()
    compiled = compile_frozen(model, backends)
    check(compiled, model)
    assert backends[-1].sessions == [True]
    in_place(model)
    check(compiled, model)
    check(compiled, model)
    assert backends[-1].sessions == [True, False]
    rests(compiled, model, backends)
    assert backends[-1].sessions == [True, False, True]


def test_weights_that_always_change_are_frozen_ever_more_seldom(backends):
    model = make_model()
    compiled = compile_frozen(model, backends)
    for _ in range(300):
        in_place(model)
        check(compiled, model)
    assert backends[-1].sessions == [True, False]
    for _ in range(60):  # five stable calls suffice until the back-off has grown
        in_place(model)
        for _ in range(5):
            check(compiled, model)
    assert len(backends[-1].sessions) <= 6


@pytest.mark.parametrize("change", [in_place, data_set, ortable.refresh])
def test_constants_come_back_after_as_many_calls_at_rest_as_asked(change, backends):
    model = make_model()
    compiled = compile_frozen(model, backends)
    change(model)
    required = 4  # twice the initial number, because constants were dropped once
    for stable_calls in (*range(required), *range(required)):  # 0: the weights just changed
        assert backends[-1]._back_off.required_calls in (2, required)
        if stable_calls == 0:
            change(model)
        check(compiled, model)
        assert not is_frozen(backends[-1]), stable_calls
    check(compiled, model)
    assert is_frozen(backends[-1])
    assert backends[-1].sessions == [True, False, True]


def test_a_weight_that_is_shared_with_another_process_stays_an_input(backends):
    model = make_model()
    model[0].weight.data.share_memory_()
    compiled = torch.compile(model, backend="ortable")
    check(compiled, model)
    model[0].weight.data.mul_(2)  # simulates a write of another process
    check(compiled, model)


def test_weights_made_under_inference_mode_stay_inputs(backends):
    with torch.inference_mode():
        model = make_model()
        compiled = torch.compile(model, backend="ortable")
        torch.testing.assert_close(compiled(BATCH), model(BATCH))
        model[0].weight.mul_(2)  # changes no version counter
        torch.testing.assert_close(compiled(BATCH), model(BATCH))
        assert backends[-1].sessions == [False]


@pytest.mark.parametrize("freeze", ["auto", "trust"])
@pytest.mark.parametrize("origin", ["inference_mode", "shared"])
def test_weights_that_stay_inputs_are_not_rounded(origin, freeze):
    with torch.inference_mode(origin == "inference_mode"):
        model = torch.nn.Linear(64, 64)
    if origin == "shared":
        model.share_memory()
    options = {"weights": "int8", "freeze": freeze}
    with (
        torch.no_grad(),
        pytest.raises(OptionError, match=r"would not be detected .*inference_mode.*shar"),
    ):
        torch.compile(model, backend="ortable", options=options)(torch.ones(2, 64))


def test_low_rank_adapters_are_swapped(backends):
    class Adapted(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.base = torch.nn.Linear(4, 4)
            self.down = torch.nn.Parameter(torch.randn(2, 4))
            self.up = torch.nn.Parameter(torch.randn(4, 2))

        def forward(self, x):
            return self.base(x) + x @ self.down.t() @ self.up.t()

    model = Adapted()
    compiled = compile_frozen(model, backends)
    adapters = [(torch.randn(2, 4), torch.randn(4, 2)) for _ in range(3)]
    for down, up in adapters * 2:
        with torch.no_grad():
            model.down.copy_(down)
            model.up.copy_(up)
        check(compiled, model)
        check(compiled, model)
    rests(compiled, model, backends)
    assert len(backends) == 1
