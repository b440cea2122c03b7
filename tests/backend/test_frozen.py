"""Weights as constants of the session: no change of a weight gives a stale result, and constants
come back when the weights rest."""

from __future__ import annotations

import copy
import threading

import pytest
import torch

import ortable
from ortable.backend import weights
from ortable.backend.call import OrtBackend

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
    return any(backend.session is found.session for found in backend._sets.values())


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


def optimizer(kind, **options):
    def change(model):
        made = getattr(torch.optim, kind)(model.parameters(), lr=0.05, **options)
        model(BATCH).sum().backward()
        made.step()
        made.zero_grad()

    return change


def in_place(model):
    with torch.no_grad():
        model[0].weight.mul_(-0.9)
        model[3].bias.copy_(torch.ones(2))


def in_place_under_inference_mode(model):
    with torch.inference_mode():
        model[0].weight.add_(1)


def through_a_view(model):
    with torch.no_grad():
        model[0].weight[0].fill_(0.5)


def buffer(model):
    model[2].running_mean.add_(0.25)


def state_dict(model):
    model.load_state_dict({k: v + 1 for k, v in model.state_dict().items()})


def state_dict_assigned(model):
    model.load_state_dict({k: v + 1 for k, v in model.state_dict().items()}, assign=True)


def data_set(model):
    model[0].weight.data = torch.ones(5, 4)


def data_set_twice(model):
    """The second tensor may lie where the first weight lay."""
    model[0].weight.data = model[0].weight.data * 2
    model[0].weight.data = model[0].weight.data * 2


def new_parameter(model):
    model[0].weight = torch.nn.Parameter(torch.ones(5, 4))


def new_parameter_over_the_same_memory(model):
    """The version begins anew, and reaches that of the parameter before."""
    version = model[0].weight._version
    model[0].weight = torch.nn.Parameter(model[0].weight.data)
    with torch.no_grad():
        while model[0].weight._version <= version:
            model[0].weight.add_(1)


def moved_and_back(model):
    model.to(torch.float64).to(torch.float32)
    model[0].weight.data.mul_(2)


def vector(model):
    values = torch.nn.utils.parameters_to_vector(model.parameters())
    torch.nn.utils.vector_to_parameters(values.detach() * 2, model.parameters())


def swapped_tensors(model):
    torch.utils.swap_tensors(model[0].weight, torch.nn.Parameter(torch.ones(5, 4)))


def set_storage(model):
    with torch.no_grad():
        model[0].weight.set_(torch.ones(5, 4))


CHANGES = [
    optimizer("SGD", foreach=True),
    optimizer("SGD", foreach=False),
    optimizer("SGD", fused=True),
    optimizer("Adam", foreach=True),
    optimizer("Adam", fused=True),
    optimizer("AdamW", fused=True),
    in_place,
    in_place_under_inference_mode,
    through_a_view,
    buffer,
    state_dict,
    state_dict_assigned,
    data_set,
    data_set_twice,
    new_parameter,
    new_parameter_over_the_same_memory,
    moved_and_back,
    vector,
    swapped_tensors,
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
    made = len(backends)
    with torch.no_grad():
        before = compiled(BATCH)
    for _ in range(2):
        change(model)
        check(compiled, model)
        with torch.no_grad():
            assert not torch.allclose(compiled(BATCH), before)
        rests(compiled, model, backends)
    assert len(backends) == made


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
    """Why steps of optimizers are watched."""
    weight = torch.nn.Parameter(torch.ones(3))
    weight.grad = torch.ones(3)
    version = weight._version
    torch.optim.Adam([weight], fused=True).step()
    assert weight._version == version


def test_an_optimizer_of_the_users_that_writes_through_data(backends):
    class Plain(torch.optim.Optimizer):
        def __init__(self, parameters):
            super().__init__(parameters, {})

        def step(self):
            for group in self.param_groups:
                for parameter in group["params"]:
                    parameter.data.mul_(2)

    model = make_model()
    compiled = compile_frozen(model, backends)
    Plain(model.parameters()).step()
    check(compiled, model)


def test_steps_of_another_models_optimizer_change_nothing(backends):
    model, other = make_model(), make_model()
    compiled = compile_frozen(model, backends)
    optimizer("Adam", fused=True)(other)
    check(compiled, model)
    assert is_frozen(backends[-1])
    assert backends[-1].sessions == [True]


@pytest.mark.parametrize("target", ["all", "module", "compiled", "tensor"])
def test_refresh_after_a_write_that_leaves_no_trace(target, backends):
    model = make_model()
    compiled = compile_frozen(model, backends)
    model[0].weight.data.mul_(2)
    model[3].bias.detach().numpy()[:] = 7
    given = {"all": (), "module": (model,), "compiled": (compiled,), "tensor": (model[0].weight,)}
    ortable.refresh(*given[target])
    check(compiled, model)
    rests(compiled, model, backends)


def test_refresh_of_another_module_keeps_the_constants(backends):
    model = make_model()
    compiled = compile_frozen(model, backends)
    ortable.refresh(make_model())
    check(compiled, model)
    assert backends[-1].sessions == [True]


def test_refresh_names_what_it_takes():
    with pytest.raises(TypeError, match="module, a tensor or nothing, not a str"):
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
    for _ in range(60):  # long enough at rest for a while
        in_place(model)
        for _ in range(5):
            check(compiled, model)
    assert len(backends[-1].sessions) <= 6


def test_a_weight_that_is_shared_with_another_process_stays_an_input(backends):
    model = make_model()
    model[0].weight.data.share_memory_()
    compiled = torch.compile(model, backend="ortable")
    check(compiled, model)
    model[0].weight.data.mul_(2)  # as another process would
    check(compiled, model)


def test_weights_made_under_inference_mode_stay_inputs(backends):
    with torch.inference_mode():
        model = make_model()
        compiled = torch.compile(model, backend="ortable")
        torch.testing.assert_close(compiled(BATCH), model(BATCH))
        model[0].weight.mul_(2)  # counts no version
        torch.testing.assert_close(compiled(BATCH), model(BATCH))
        assert backends[-1].sessions == [False]


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
    class Holder(torch.nn.Module):
        def __init__(self):
            super().__init__()
            values = torch.arange(max(1, torch.Size(shape).numel())) % 3
            values = values[: torch.Size(shape).numel()].reshape(shape)
            self.register_buffer("held", values.to(dtype))

        def forward(self, x):
            return torch.where(self.held, 1, 2) if dtype is torch.bool else self.held + self.held

    model = Holder()
    compiled = torch.compile(model, backend="ortable")
    torch.testing.assert_close(compiled(BATCH), model(BATCH))
    assert backends[-1].sessions == [True]
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
    class Holder(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("held", make())

        def forward(self, x):
            return x @ self.held

    model = Holder()
    compiled = torch.compile(model, backend="ortable", options={"freeze": freeze})
    check(compiled, model)
    base = model.held if model.held._base is None else model.held._base
    base.mul_(2)
    check(compiled, model)
    model.held = make()
    check(compiled, model)


def test_complex_weights_stay_inputs(backends):
    class Holder(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("held", torch.randn(4, dtype=torch.complex64))
            self.linear = torch.nn.Linear(4, 4)

        def forward(self, x):
            return torch.view_as_real(self.linear(x) * self.held)

    model = Holder()
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
    compiled = [torch.compile(layer, backend="ortable") for layer in layers]
    for _ in range(3):
        for one, layer in zip(compiled, layers, strict=True):
            check(one, layer)
    assert sum(len(b._sets) for b in backends) == 5
    assert all(all(b.sessions) for b in backends)


def test_running_statistics_in_training_mode_are_not_constants(backends):
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4))
    twin = copy.deepcopy(model)
    compiled = torch.compile(model, backend="ortable")
    with torch.no_grad():
        for _ in range(4):
            torch.testing.assert_close(compiled(BATCH), twin(BATCH))
    torch.testing.assert_close(model[1].running_var, twin[1].running_var)
    assert backends[-1].sessions == [True]
    model.eval(), twin.eval()
    check(compiled, twin)


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
        ("auto", False, ("input0", "input1")),
        ("auto", True, "grad mode was on when it was compiled"),
        ("on", True, ("input0", "input1")),
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
    found = storage["instance"][0]["frozen"]
    assert found[: len(expected)] == expected
    assert is_frozen(backends[0]) == isinstance(expected, tuple)


def test_a_graph_without_weights_says_so():
    storage = {}
    torch.compile(lambda x: x + 1, backend="ortable", options={"storage": storage})(BATCH)
    assert storage["instance"][0]["frozen"] == "the graph reads no parameter and no buffer"


def test_training_with_frozen_forward_graphs(backends):
    model = make_model()
    twin = copy.deepcopy(model)
    compiled = torch.compile(model, backend="ortable", options={"freeze": "on"})
    ours = torch.optim.Adam(model.parameters(), lr=0.1, fused=True)
    theirs = torch.optim.Adam(twin.parameters(), lr=0.1)
    for _ in range(5):
        for net, step in ((compiled, ours), (twin, theirs)):
            step.zero_grad()
            net(BATCH).square().sum().backward()
            step.step()
    for a, b in zip(model.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)


def test_a_session_options_object_of_the_user_is_not_changed(backends):
    """It serves several sessions, and constants are written into it: weights stay inputs."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    for size in (4, 40):
        model = torch.nn.Linear(size, 40)
        compiled = torch.compile(model, backend="ortable", options={"session_options": options})
        check(compiled, model, torch.randn(3, size))
        assert "give a dict" in backends[-1].frozen
        in_place_once(model)
        check(compiled, model, torch.randn(3, size))


def in_place_once(model):
    with torch.no_grad():
        model.weight.mul_(2)


def test_threads_see_a_change_made_between_their_calls(backends):
    model = make_model()
    compiled = compile_frozen(model, backends)
    barrier = threading.Barrier(5)
    wrong = []

    def work(number):
        generator = torch.Generator().manual_seed(number)
        for _ in range(12):
            barrier.wait()  # the weights were written
            for _ in range(4):
                batch = torch.randn(3, 4, generator=generator)
                with torch.no_grad():
                    if not torch.allclose(compiled(batch), model(batch), atol=1e-4):
                        wrong.append(number)
            barrier.wait()

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
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
    assert wrong == []


def test_first_calls_at_the_same_time_make_one_session(backends):
    model = make_model()
    compiled = compile_frozen(model, backends)
    backend = backends[-1]
    backend._sets.clear()
    backend._call = backend._key = None  # its session of before would be shared
    backend.sessions.clear()
    barrier = threading.Barrier(4)
    results = []

    def work():
        barrier.wait()
        with torch.no_grad():
            results.append(compiled(BATCH))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
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
    assert sum(hook is weights._stepped for hook in hooks) == 1
