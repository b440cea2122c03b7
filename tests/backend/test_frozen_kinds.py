"""Weights that become constants: dtypes, layouts, tied weights, shared graphs and threads."""

from __future__ import annotations

import copy
import threading

import pytest
import torch

from ortable.backend.execute import weights
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
from tests.backend.threads import in_threads


@pytest.mark.parametrize(
    "dtype",
    [
        torch.float32,
        torch.float64,
        torch.float16,
        torch.bfloat16,
        torch.int64,
        torch.int32,
        torch.uint8,
        torch.bool,
    ],
)
@pytest.mark.parametrize("shape", [(), (0,), (0, 3), (1,), (3,), (40, 30)])
def test_constants_of_every_type_and_size(dtype, shape, backends):
    class BufferModule(torch.nn.Module):
        def __init__(self):
            super().__init__()
            values = torch.arange(max(1, torch.Size(shape).numel())) % 3
            values = values[: torch.Size(shape).numel()].reshape(shape)
            self.register_buffer("held", values.to(dtype))

        def forward(self, x):
            return torch.where(self.held, 1, 2) if dtype is torch.bool else self.held + self.held

    model = BufferModule()
    compiled = torch.compile(model, backend="ortable")
    torch.testing.assert_close(compiled(BATCH), model(BATCH))
    # A result without elements is a constant of the graph, which needs no session.
    assert backends[-1].sessions == ([] if 0 in shape else [True])
    model.held.zero_()
    torch.testing.assert_close(compiled(BATCH), model(BATCH))


@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.randn(6, 4).t(),
        lambda: torch.randn(4, 12)[:, ::2],
        lambda: torch.randn(1, 6).expand(4, 6),
        lambda: torch.randn(8, 6)[2:6],
    ],
    ids=["permuted", "gaps", "expanded", "offset"],
)
@pytest.mark.parametrize("freeze", ["auto", "off"])
def test_weights_in_any_layout(make, freeze, backends):
    class BufferModule(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("held", make())

        def forward(self, x):
            return x @ self.held

    model = BufferModule()
    compiled = torch.compile(model, backend="ortable", options={"freeze": freeze})
    check(compiled, model)
    base = model.held if model.held._base is None else model.held._base
    base.mul_(2)
    check(compiled, model)
    model.held = make()
    check(compiled, model)


def test_complex_weights_stay_inputs(backends):
    class BufferModule(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("held", torch.randn(4, dtype=torch.complex64))
            self.linear = torch.nn.Linear(4, 4)

        def forward(self, x):
            return torch.view_as_real(self.linear(x) * self.held)

    model = BufferModule()
    compiled = torch.compile(model, backend="ortable")
    check(compiled, model)
    assert backends[-1].sessions == [True]
    model.held.mul_(2j)
    check(compiled, model)


def test_tied_weights(backends):
    class Tied(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)
            self.second.weight = self.first.weight

        def forward(self, x):
            return self.second(torch.relu(self.first(x)))

    model = Tied()
    compiled = compile_frozen(model, backends)
    with torch.no_grad():
        model.first.weight.mul_(2)
    check(compiled, model)
    rests(compiled, model, backends)
    model.second.weight = torch.nn.Parameter(torch.ones(4, 4))
    check(compiled, model)


def test_equal_layers_that_share_a_graph_have_constants_each(backends):
    layers = [torch.nn.Linear(4, 4) for _ in range(5)]
    compiled_layers = [torch.compile(layer, backend="ortable") for layer in layers]
    for _ in range(3):
        for compiled_layer, layer in zip(compiled_layers, layers, strict=True):
            check(compiled_layer, layer)
    assert sum(len(backend._frozen_sets) for backend in backends) == 5
    assert all(all(backend.sessions) for backend in backends)


def test_running_statistics_in_training_mode_are_not_constants(backends):
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4))
    eager = copy.deepcopy(model)
    compiled = torch.compile(model, backend="ortable")
    with torch.no_grad():
        for _ in range(4):
            torch.testing.assert_close(compiled(BATCH), eager(BATCH))
    torch.testing.assert_close(model[1].running_var, eager[1].running_var)
    assert backends[-1].sessions == [True]
    model.eval(), eager.eval()
    check(compiled, eager)


def test_requires_grad_is_no_change_of_values(backends):
    model = make_model()
    compiled = compile_frozen(model, backends)
    model.requires_grad_(False)
    check(compiled, model)
    in_place(model)
    check(compiled, model)


@pytest.mark.parametrize(
    ("freeze", "grad", "expected"),
    [
        ("auto", False, ("weight", "bias")),
        ("auto", True, "grad mode was on when it was compiled"),
        ("on", True, ("weight", "bias")),
        ("off", False, "option freeze is 'off'"),
    ],
)
def test_the_record_says_what_is_frozen(freeze, grad, expected, backends):
    storage = {}
    model = torch.nn.Linear(4, 2)
    compiled = torch.compile(
        model, backend="ortable", options={"freeze": freeze, "storage": storage}
    )
    with torch.set_grad_enabled(grad):
        torch.testing.assert_close(compiled(BATCH), model(BATCH))
    frozen = storage["instance"][0]["frozen"]
    assert frozen[: len(expected)] == expected
    assert is_frozen(backends[0]) == isinstance(expected, tuple)


def test_a_graph_without_weights_says_so():
    storage = {}
    torch.compile(lambda x: x + 1, backend="ortable", options={"storage": storage})(BATCH)
    assert storage["instance"][0]["frozen"] == "the graph reads no parameter and no buffer"


def test_training_with_frozen_forward_graphs(backends):
    model = make_model()
    eager = copy.deepcopy(model)
    compiled = torch.compile(model, backend="ortable", options={"freeze": "on"})
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1, fused=True)
    eager_optimizer = torch.optim.Adam(eager.parameters(), lr=0.1)
    for _ in range(5):
        for net, stepper in ((compiled, optimizer), (eager, eager_optimizer)):
            stepper.zero_grad()
            net(BATCH).square().sum().backward()
            stepper.step()
    for parameter, expected in zip(model.parameters(), eager.parameters(), strict=True):
        torch.testing.assert_close(parameter, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("threads", [0, 1])
def test_a_session_options_object_of_the_user_serves_several_sessions(backends, threads):
    """Constants are embedded in the models, not stored in the options object."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.add_session_config_entry("session.intra_op.spin_duration_us", "70")
    for size in (4, 40, 400):
        model = torch.nn.Linear(size, 400)
        compiled = torch.compile(model, backend="ortable", options={"session_options": options})
        check(compiled, model, torch.randn(3, size))
        assert backends[-1].held
        session_options = backends[-1].session.get_session_options()
        assert session_options.intra_op_num_threads == (threads or torch.get_num_threads())
        get_entry = session_options.get_session_config_entry
        assert get_entry("session.intra_op.spin_duration_us") == "70"
        assert get_entry("session.x64quantprecision") == "1"
        assert options.intra_op_num_threads == threads
        write_weight(model)
        check(compiled, model, torch.randn(3, size))


def test_constants_too_large_for_a_model_stay_inputs(backends, monkeypatch):
    import onnxruntime

    monkeypatch.setattr("ortable.backend.execute.runner._MAX_EMBEDDED_BYTES", 100)
    options = {"session_options": onnxruntime.SessionOptions()}
    model = torch.nn.Linear(4, 40)
    check(torch.compile(model, backend="ortable", options=options), model, torch.randn(3, 4))
    assert "give a dict" in backends[-1].frozen


def write_weight(model):
    with torch.no_grad():
        model.weight.mul_(2)


def test_threads_see_a_change_made_between_their_calls(backends):
    model = make_model()
    compiled = compile_frozen(model, backends)
    barrier = threading.Barrier(5)
    failed_workers = []

    def call_repeatedly(worker):
        generator = torch.Generator().manual_seed(worker)
        for _ in range(12):
            barrier.wait()  # wait until the weights are written
            for _ in range(4):
                batch = torch.randn(3, 4, generator=generator)
                with torch.no_grad():
                    if not torch.allclose(compiled(batch), model(batch), atol=1e-4):
                        failed_workers.append(worker)
            barrier.wait()

    threads = [threading.Thread(target=call_repeatedly, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for step in range(12):
        if step % 3 != 2:
            (in_place, data_set)[step % 2](model)
            with torch.no_grad():
                model[0].weight.mul_(step + 1)
        barrier.wait()
        barrier.wait()
    for thread in threads:
        thread.join()
    assert failed_workers == []


def test_first_calls_at_the_same_time_make_one_session(backends):
    model = make_model()
    compiled = compile_frozen(model, backends)
    backend = backends[-1]
    backend._frozen_sets.clear()
    backend._call = backend._key = None  # otherwise its previous session would be shared
    backend.sessions.clear()
    results = []

    def call_once(_):
        with torch.no_grad():
            results.append(compiled(BATCH))

    in_threads(4, call_once)
    assert backend.sessions == [True]
    with torch.no_grad():
        expected = model(BATCH)
    for result in results:
        torch.testing.assert_close(result, expected)


def test_one_hook_for_all(backends):
    for _ in range(3):
        compile_frozen(make_model(), backends)
        torch._dynamo.reset()
    from torch.optim import optimizer

    hooks = optimizer._global_optimizer_post_hooks.values()
    assert sum(hook is weights._on_optimizer_step for hook in hooks) == 1
