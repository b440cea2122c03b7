"""Option `autotune` with scripted trials; `test_autotune_trial.py` tests the timing."""

from __future__ import annotations

import copy
import gc
import json
import logging
import re
import threading
import warnings
import weakref

import pytest
import torch
from torch import nn
from torch._dynamo.backends.common import aot_autograd

import ortable
from ortable.backend.autotune import autotuner, decisions
from ortable.backend.autotune.graphs import AutotunedGraph
from ortable.backend.autotune.trial import Decision
from tests.backend.against_eager import (
    assert_close,
    call_until_decided,
    every_warning_an_error,
    loss_of,
)

TURNS = 6  # calls per scripted trial


@pytest.fixture(autouse=True)
def clear_decisions():
    decisions.STORE.clear()
    yield
    decisions.STORE.clear()


@pytest.fixture
def force_decision(monkeypatch):
    """Return `force_decision(winner)`, which scripts all trials and returns their turns."""

    def script_trials(winner):
        turns = []

        class ScriptedTrial:
            def __init__(self, settle, candidates):
                self.turn, self.decision, self.calls = candidates[0], None, 0
                self.candidates = candidates

            def record_call(self, began, seconds):
                turns.append(self.turn)
                self.calls += 1
                self.turn = self.candidates[self.calls % len(self.candidates)]
                if self.calls == TURNS:
                    kept = winner if winner in self.candidates else self.candidates[0]
                    seconds = {"onnxruntime": 2.0, "torch": 1.0, "inductor": 1.5}
                    self.decision = Decision(
                        kept, {name: seconds[name] for name in self.candidates}
                    )

        monkeypatch.setattr(autotuner, "TimingTrial", ScriptedTrial)
        return turns

    return script_trials


def compile_autotuned(fn, **options):
    """Return the function, compiled with autotune, and the storage of its records."""
    storage = {}
    options = {"autotune": True, "hints": False, "storage": storage, **options}
    return torch.compile(fn, backend="ortable", options=options), storage


def make_model():
    return nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Linear(8, 3)).eval()


def test_a_real_trial_ends_with_one_of_the_two():
    net = make_model()
    run, storage = compile_autotuned(net)
    x = torch.randn(2, 4)
    with torch.no_grad():
        torch.testing.assert_close(call_until_decided(run, x, storage), net(x))
        torch.testing.assert_close(run(x), net(x))
    (tuner,) = storage["autotune"]
    assert tuner.kept in ("onnxruntime", "torch")
    assert "graph of Sequential.forward" in str(tuner)


@pytest.mark.parametrize("winner", ["onnxruntime", "torch"])
def test_the_other_one_is_let_go(force_decision, winner, backends):
    turns = force_decision(winner)
    net = make_model()
    run, storage = compile_autotuned(net)
    x = torch.randn(2, 4)
    with torch.no_grad():
        for _ in range(TURNS + 3):
            assert_close(run(x), net(x))
        assert turns == ["onnxruntime", "torch"] * (TURNS // 2)
        assert storage["autotune"][0].kept == winner
        if winner == "torch":
            assert torch.equal(run(x), net(x))  # eager's own operators
            session = weakref.ref(backends[0].held[0].session)
            storage.clear()
            backends.clear()
            gc.collect()
            assert session() is None
        else:
            assert len(backends[0].held) == 1


def test_writes_and_random_numbers_happen_once_a_call(force_decision):
    force_decision("torch")

    class CountingModel(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("count", torch.zeros(2))
            self.norm = nn.BatchNorm1d(3)

        def forward(self, x, y):
            self.count += 1
            y.mul_(1.5)
            return nn.functional.dropout(self.norm(x), 0.5) + self.count.sum(), y[0]

    net = CountingModel().train()
    eager = copy.deepcopy(net)
    run, storage = compile_autotuned(net)
    x = torch.randn(4, 3)
    with torch.no_grad():
        for call in range(TURNS + 2):
            compiled_y, eager_y = torch.ones(2), torch.ones(2)
            torch.manual_seed(call)
            expected = eager(x, eager_y)
            state = torch.random.get_rng_state()
            torch.manual_seed(call)
            got = run(x, compiled_y)
            assert torch.equal(torch.random.get_rng_state(), state)
            assert_close([*got, compiled_y, *net.buffers()], [*expected, eager_y, *eager.buffers()])
            assert got[1].data_ptr() == compiled_y.data_ptr()
    assert storage["autotune"][0].kept == "torch"


def test_an_assertion_is_raised_whoever_runs(force_decision):
    force_decision("torch")

    def check_and_double(x):
        torch._check(x.sum().item() > 0, lambda: "not positive")
        return x * 2

    run, _ = compile_autotuned(check_and_double)
    with torch._dynamo.config.patch(capture_scalar_outputs=True), torch.no_grad():
        for _ in range(TURNS + 2):
            assert_close(run(torch.ones(2)), torch.full((2,), 2.0))
            with pytest.raises(RuntimeError):
                run(-torch.ones(2))


def test_results_have_their_strides_and_aliases_whoever_runs(force_decision):
    turns = force_decision("torch")

    def fn(x):
        y = (x * 2).transpose(0, 1)
        return y, y[0], x, torch.relu(x).t().contiguous().t()

    run, _ = compile_autotuned(fn)
    x = torch.randn(3, 4)
    with torch.no_grad():
        for _ in range(TURNS + 1):
            got, expected = run(x), fn(x)
            for a, b in zip(got, expected, strict=True):
                assert torch.equal(a, b) and a.stride() == b.stride()
            assert got[0].data_ptr() == got[1].data_ptr() and got[2] is x
    assert "torch" in turns


class ConvolutionalNetwork(nn.Module):
    """A network of products, and of convolutions whose gradients torch runs."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(2, 4, 3, padding=1)
        self.norm = nn.BatchNorm2d(4)
        self.head = nn.Sequential(nn.Flatten(), nn.Linear(64, 16), nn.Tanh(), nn.Linear(16, 4))

    def forward(self, x):
        y = self.head(torch.relu(self.norm(self.conv(x))))
        return torch.log_softmax(y, 1) * 2, y.t()


@pytest.mark.parametrize("winner", ["onnxruntime", "torch"])
def test_training_is_right_in_every_combination(force_decision, winner, every_partition):
    turns = force_decision(winner)
    net = ConvolutionalNetwork()
    eager = copy.deepcopy(net)
    run, storage = compile_autotuned(net)
    optimizers = [torch.optim.SGD(module.parameters(), lr=0.1) for module in (net, eager)]
    for _ in range(2 * TURNS + 3):  # trials of the graphs of AOTAutograd, then of steps
        x = torch.randn(3, 2, 4, 4)
        for module, optimizer in zip((run, eager), optimizers, strict=True):
            optimizer.zero_grad()
            first, second = module(x)
            first.mul_(1.0)  # raises an error for a view created in an autograd function
            loss = loss_of(first) + loss_of(second)
            loss.backward()
        assert_close([p.grad for p in net.parameters()], [p.grad for p in eager.parameters()])
        for optimizer in optimizers:
            optimizer.step()
        assert_close([*net.buffers()], [*eager.buffers()])
    assert {tuner.kept for tuner in storage["autotune"]} == {winner}
    assert len(turns) >= 2 * TURNS


def test_training_alternates_forward_and_backward_apart(force_decision):
    """A forward in torch can precede a backward in ONNX Runtime, and the other way round."""
    force_decision("torch")
    net = nn.Sequential(nn.Linear(4, 8), nn.LayerNorm(8), nn.SiLU(), nn.Linear(8, 2))
    eager = copy.deepcopy(net)
    run, storage = compile_autotuned(net)
    x = torch.randn(5, 4)
    run(x)  # a forward without a backward, so that the two graphs take different turns
    for _ in range(3 * TURNS):
        for module in (run, eager):
            module(x).pow(2).sum().backward()
    assert_close([p.grad for p in net.parameters()], [p.grad for p in eager.parameters()])
    assert [tuner.kept for tuner in storage["autotune"]] == ["torch"] * 3


def test_a_step_is_measured_against_eagers_when_its_graphs_are_decided(force_decision):
    force_decision("onnxruntime")
    net = nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Linear(8, 2))
    run, storage = compile_autotuned(net)
    x = torch.randn(5, 4)
    for _ in range(2 * TURNS + 1):  # the last call records a step
        run(x).sum().backward()
    assert sorted(tuner.label.split(" graph")[0] for tuner in storage["autotune"]) == [
        "a step of the forward",
        "the backward",
        "the forward",
    ]
    assert {tuner.kept for tuner in storage["autotune"]} == {"onnxruntime"}


def test_results_without_gradients_are_measured_without_a_backward(force_decision):
    force_decision("torch")
    net = nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Linear(8, 3)).eval()
    run, storage = compile_autotuned(lambda x: net(x).argmax(1))
    x = torch.randn(5, 4)
    for _ in range(TURNS):  # gradients are on, and no result has one
        assert torch.equal(run(x), net(x).argmax(1))
    assert [tuner.kept for tuner in storage["autotune"]] == ["torch"]


def test_eager_is_what_a_step_becomes(force_decision, backends):
    force_decision("torch")
    net = nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Linear(8, 2))
    run, storage = compile_autotuned(net)
    x = torch.randn(5, 4)
    for _ in range(3 * TURNS):
        run(x).sum().backward()
    assert type(run(x).grad_fn) is type(net(x).grad_fn)
    assert torch.equal(run(x), net(x))
    references = [weakref.ref(backend) for backend in backends]
    backends.clear()
    gc.collect()
    assert len(references) == 2 and not any(reference() for reference in references)
    assert len(storage["autotune"]) == 3


def test_a_step_whose_backward_never_comes_is_left_to_onnx_runtime(force_decision):
    """Calls in eval mode with gradients enabled are not timed forever."""
    turns = force_decision("torch")
    net = nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Linear(8, 2))
    run, storage = compile_autotuned(net)
    x = torch.randn(5, 4)
    for _ in range(TURNS):
        run(x).sum().backward()
    previous_turns = len(turns)
    for _ in range(20):
        assert_close(run(x), net(x))
    assert len(turns) == previous_turns
    (step,) = [tuner for tuner in storage["autotune"] if "a step" in tuner.label]
    assert "have no backward of their own" in str(step) and not step.is_open
    net.zero_grad()
    run(x).sum().backward()
    got = [p.grad for p in net.parameters()]
    net.zero_grad()
    net(x).sum().backward()
    assert_close(got, [p.grad for p in net.parameters()])


def test_gradients_of_several_calls_are_summed_whoever_runs(force_decision):
    """Two calls before one backward are not timed, and both contribute to the gradients."""
    force_decision("torch")
    net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))
    eager = copy.deepcopy(net)
    run, _ = compile_autotuned(net)
    xs = torch.randn(2, 5, 4)
    for _ in range(3 * TURNS):
        for module in (run, eager):
            (module(xs[0]).sum() + module(xs[1]).pow(2).sum()).backward()
    assert_close([p.grad for p in net.parameters()], [p.grad for p in eager.parameters()])


def test_gradients_of_some_arguments_alone_are_asked_for_in_a_measured_step(force_decision):
    turns = force_decision("torch")
    net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))
    run, storage = compile_autotuned(net)
    for _ in range(3 * TURNS):
        x = torch.randn(5, 4, requires_grad=True)
        weights = [x, net[0].weight]
        got = torch.autograd.grad(run(x).pow(2).sum(), weights)
        assert_close(list(got), list(torch.autograd.grad(net(x).pow(2).sum(), weights)))
    assert len(turns) == 3 * TURNS
    assert [tuner.kept for tuner in storage["autotune"]] == ["torch"] * 3


def test_random_numbers_of_a_measured_step_are_those_of_eager(force_decision):
    """A graph that draws random numbers is timed only as a part of a whole step."""
    turns = force_decision("torch")
    net = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.5), nn.Linear(8, 2))
    run, _ = compile_autotuned(net)
    x = torch.randn(5, 4)
    for call in range(3 * TURNS):
        got, expected = [], []
        for module, results in ((run, got), (net, expected)):
            net.zero_grad()
            torch.manual_seed(call)
            results.append(module(x))
            results[0].sum().backward()
            results += [p.grad for p in net.parameters()]
        assert_close(got, expected)
    assert "torch" in turns


def test_partitions_of_a_graph_are_measured_and_then_the_whole(force_decision):
    force_decision("torch")
    net = nn.Sequential(nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 64)).eval()

    def fn(x):
        return net(torch.bernoulli(torch.sigmoid(net(x)))) + 1

    run, storage = compile_autotuned(fn)
    x = torch.randn(8, 64)
    with torch.no_grad():
        for call in range(3 * TURNS):
            torch.manual_seed(call)
            expected = fn(x)
            torch.manual_seed(call)
            assert_close(run(x), expected)
    *parts, whole = storage["autotune"]
    assert parts and all("partition" in tuner.label for tuner in parts)
    assert [tuner.kept for tuner in (*parts, whole)] == ["torch"] * (len(parts) + 1)


def test_sizes_that_differ_have_decisions_of_their_own(force_decision):
    force_decision("torch")
    run, storage = compile_autotuned(lambda x: torch.tanh(x) @ x.T)
    with torch.no_grad():
        for rows in (4, 5, 6, 7, 5, 6, 7, 60, 61):
            x = torch.randn(rows, 3)
            torch._dynamo.mark_dynamic(x, 0)
            assert_close(run(x), torch.tanh(x) @ x.T)
    (tuner,) = storage["autotune"]
    assert tuner.is_open and [*tuner.decisions] == [(3,)]
    assert "sizes of class 3: torch is kept" in str(tuner)


def test_a_class_of_own_aot_autograd_is_measured(force_decision):
    force_decision("torch")
    storage = {}

    def compiler(gm, args):
        return ortable.onnx_custom_backend(gm, args, autotune=True, storage=storage)

    net = make_model()
    run = torch.compile(
        net, backend=aot_autograd(fw_compiler=compiler, inference_compiler=compiler)
    )
    x = torch.randn(2, 4)
    with torch.no_grad():
        for _ in range(TURNS + 2):
            assert_close(run(x), net(x))
    assert [tuner.kept for tuner in storage["autotune"]] == ["torch"]


def test_torch_is_pinned_and_nothing_is_converted(backends, caplog):
    net = make_model()
    run, storage = compile_autotuned(net, autotune="torch")
    x = torch.randn(2, 4, requires_grad=True)
    with caplog.at_level(logging.INFO, logger="ortable"):
        assert torch.equal(run(x), net(x))
    assert re.search(r"autotune: torch runs a graph of \d+ nodes", caplog.text)
    run(x).sum().backward()
    assert x.grad is not None and not backends and "instance" not in storage


def test_without_the_option_nothing_is_measured(backends):
    net = make_model()
    run, storage = compile_autotuned(net, autotune=False)
    with torch.no_grad():
        run(torch.randn(2, 4))
    assert "autotune" not in storage and len(backends) == 1


def test_a_branch_in_a_graph_is_left_to_onnx_runtime():
    def fn(x):
        return torch.cond(x.sum() > 0, lambda x: x + 1, lambda x: x - 1, (x,))

    run, storage = compile_autotuned(fn)
    with torch.no_grad():
        assert_close(run(torch.ones(3)), torch.full((3,), 2.0))
    assert "autotune" not in storage


def test_a_decision_is_logged(force_decision, caplog):
    force_decision("torch")
    run, _ = compile_autotuned(make_model())
    with torch.no_grad(), caplog.at_level(logging.INFO, logger="ortable"):
        for _ in range(TURNS):
            run(torch.randn(2, 4))
    (line,) = [record.message for record in caplog.records if "autotune" in record.message]
    assert "torch is kept: 1000.00 ms a call, 2000.00 ms in ONNX Runtime" in line
    assert "the inference graph of Sequential.forward" in line


def test_explain_tells_what_is_kept(force_decision):
    force_decision("torch")
    net = make_model()
    explanation = ortable.explain(net, torch.randn(2, 4), options={"autotune": True})
    (note,) = [text for text in explanation.notes if text.startswith("autotune")]
    assert "torch is kept" in note and note in str(explanation)


def test_explain_runs_once_without_the_option():
    explanation = ortable.explain(make_model(), torch.randn(2, 4))
    assert not any("autotune" in note for note in explanation.notes)


# -- stored decisions


def count_timed_calls(net, turns, **options):
    """Compile `net` anew, call it and return the number of calls that were timed."""
    torch._dynamo.reset()
    previous_turns = len(turns)
    run, storage = compile_autotuned(net, **options)
    x = torch.randn(2, 4)
    with torch.no_grad():
        for _ in range(TURNS + 1):
            assert_close(run(x), net(x))
    assert storage["autotune"][0].kept == "torch"
    return len(turns) - previous_turns


def test_a_decision_holds_for_equal_graphs_of_the_process(force_decision):
    turns = force_decision("torch")
    assert count_timed_calls(make_model(), turns) == TURNS
    assert count_timed_calls(make_model(), turns) == 0
    wider = nn.Sequential(nn.Linear(4, 9), nn.GELU(), nn.Linear(9, 3)).eval()
    assert count_timed_calls(wider, turns) == TURNS


def test_a_decision_is_found_on_disk(force_decision, tmp_path):
    turns = force_decision("torch")
    folder = {"cache_dir": str(tmp_path)}
    assert count_timed_calls(make_model(), turns, **folder) == TURNS
    (path,) = tmp_path.glob("*.autotune")
    assert json.loads(path.read_text())["kept"] == "torch"
    decisions.STORE.clear()
    assert count_timed_calls(make_model(), turns, **folder) == 0


def test_a_damaged_file_is_measured_again(force_decision, tmp_path):
    turns = force_decision("torch")
    folder = {"cache_dir": str(tmp_path)}
    count_timed_calls(make_model(), turns, **folder)
    (path,) = tmp_path.glob("*.autotune")
    path.write_text('{"kept": "rm", "seconds": {"onnxruntime": 1, "torch": 1}}')
    decisions.STORE.clear()
    with pytest.warns(RuntimeWarning, match="is measured again"):
        assert count_timed_calls(make_model(), turns, **folder) == TURNS
    assert json.loads(path.read_text())["kept"] == "torch"


@pytest.mark.parametrize("change", ["processor", "threads", "versions"])
def test_another_machine_measures_again(force_decision, tmp_path, monkeypatch, change):
    turns = force_decision("torch")
    folder = {"cache_dir": str(tmp_path)}
    count_timed_calls(make_model(), turns, **folder)
    decisions.STORE.clear()
    threads = torch.get_num_threads()
    if change == "processor":
        monkeypatch.setattr(decisions, "describe_processor", lambda: "another one")
    elif change == "versions":
        monkeypatch.setattr(decisions, "disk_key", lambda key: f"newer-{key}")
    else:
        torch.set_num_threads(threads + 1)
    try:
        assert count_timed_calls(make_model(), turns, **folder) == TURNS
    finally:
        torch.set_num_threads(threads)


def test_a_folder_that_cannot_be_written_is_a_warning(tmp_path):
    path = tmp_path / "a file"
    path.write_text("")
    store = decisions.Decisions(["key"], str(path))
    decision = Decision("torch", {"onnxruntime": 2.0, "torch": 1.0})
    with pytest.warns(RuntimeWarning, match="cannot be written"):
        store.store_decision((), decision)
    assert store.find_decision(()) == decision


def test_the_processor_is_told_once():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert decisions.describe_processor() and (
            decisions.describe_processor() is decisions.describe_processor()
        )


# -- several threads


def test_threads_at_once_get_their_own_results(force_decision):
    force_decision("torch")
    net = make_model()
    run, _ = compile_autotuned(net)
    with torch.no_grad():
        run(torch.zeros(2, 4))
        inputs = [torch.randn(2, 4) for _ in range(4)]
        failures = []

        def work(x):
            with torch.no_grad():
                expected = net(x)
                for _ in range(40):
                    if not torch.allclose(run(x), expected, atol=1e-5):
                        failures.append(x)

        workers = [threading.Thread(target=work, args=(x,)) for x in inputs]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
    assert not failures


def test_no_warning_with_the_option(force_decision):
    force_decision("torch")
    net = make_model()
    run, _ = compile_autotuned(net)
    with every_warning_an_error(), torch.no_grad():
        for _ in range(TURNS + 1):
            run(torch.randn(2, 4))


def test_what_is_measured_prints_in_one_line(force_decision):
    force_decision("torch")
    run, storage = compile_autotuned(nn.Linear(4, 4))
    run(torch.randn(2, 4)).sum().backward()
    assert repr(storage["autotune"][0]) == (
        f"Autotuner({storage['autotune'][0].label}: measured in its next calls)"
    )
    assert repr(AutotunedGraph(storage["autotune"][0], None)).startswith("AutotunedGraph(")
