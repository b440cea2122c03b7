"""Sessions have as many threads as torch, serve several callers, and spin for a short time."""

from __future__ import annotations

import pytest
import torch

from tests.backend.threads import in_threads


@pytest.fixture
def set_threads():
    count = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(count)


def test_sessions_follow_the_number_of_threads_of_torch(backends, set_threads):
    model, x = torch.nn.Linear(4, 4), torch.randn(2, 4)
    compiled = torch.compile(model, backend="ortable")
    for count in (1, 2, 1):
        set_threads(count)
        with torch.no_grad():
            torch.testing.assert_close(compiled(x), model(x))
    counts = [b.session.get_session_options().intra_op_num_threads for b in backends]
    assert counts == [1, 2]  # Dynamo recompiles, then reuses the first code


@pytest.mark.parametrize("grad", [False, True])
def test_threads_spin_for_microseconds(grad, backends, set_threads):
    set_threads(2)
    compiled = torch.compile(torch.nn.Linear(4, 4), backend="ortable")
    with torch.set_grad_enabled(grad):
        compiled(torch.randn(2, 4))
    options = backends[0].session.get_session_options()
    assert options.get_session_config_entry("session.intra_op.spin_duration_us") == "50"


def test_session_options_of_the_user_win(backends):
    options = {"intra_op_num_threads": 3, "session.intra_op.allow_spinning": "0"}
    compiled = torch.compile(
        torch.nn.Linear(4, 4), backend="ortable", options={"session_options": options}
    )
    with torch.no_grad():
        compiled(torch.randn(2, 4))
    assert backends[0].session.get_session_options().intra_op_num_threads == 3


@pytest.mark.parametrize("freeze", ["auto", "off"])
def test_many_callers_with_batches_of_their_own(freeze):
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 3))
    compiled = torch.compile(model, backend="ortable", dynamic=True, options={"freeze": freeze})
    with torch.no_grad():
        for size in (2, 3):
            compiled(torch.randn(size, 8))

    def run_thread(seed):
        generator = torch.Generator().manual_seed(seed)
        with torch.no_grad():
            results = []
            for step in range(50):
                x = torch.randn(2 + (seed + step) % 5, 8, generator=generator)
                results.append((compiled(x), model(x)))
        for result, expected in results:
            torch.testing.assert_close(result, expected)

    in_threads(4, run_thread)


def test_training_steps_of_two_models_at_once():
    def run_thread(seed):
        torch.manual_seed(seed)
        model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Tanh())
        twin = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Tanh())
        twin.load_state_dict(model.state_dict())
        compiled = torch.compile(model, backend="ortable")
        for _ in range(3):
            x = torch.randn(3, 4)
            for net in (compiled, twin):
                net(x).square().sum().backward()
        for parameter, twin_parameter in zip(model.parameters(), twin.parameters(), strict=True):
            torch.testing.assert_close(parameter.grad, twin_parameter.grad)

    in_threads(2, run_thread)


def test_a_module_used_twice_in_one_graph_and_by_two_threads():
    layer = torch.nn.Linear(4, 4)
    compiled = torch.compile(lambda x: layer(torch.relu(layer(x))), backend="ortable")
    x = torch.randn(3, 4)
    with torch.no_grad():
        expected = layer(torch.relu(layer(x)))
        compiled(x)

    def run_thread(seed):
        with torch.no_grad():
            for _ in range(20):
                torch.testing.assert_close(compiled(x), expected)

    in_threads(2, run_thread)
