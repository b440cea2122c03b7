"""Option `autotune`: graphs that are timed with ONNX Runtime and with torch in turns. Which of the
two is kept is scripted here; `test_autotune_trial` has the times."""

from __future__ import annotations

import copy
import gc
import json
import logging
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
from tests.backend.against_eager import assert_close, every_warning_an_error, loss_of

TURNS = 6  # calls of a scripted trial


@pytest.fixture(autouse=True)
def nothing_decided():
    decisions.STORE.clear()
    yield
    decisions.STORE.clear()


@pytest.fixture
def keep(monkeypatch):
    """`keep("torch")`: trials alternate with every call, and then keep that candidate; the list of
    turns of all trials."""

    def scripted(kept):
        turns = []

        class Scripted:
            def __init__(self, settle):
                self.turn, self.decision, self.calls = "onnxruntime", None, 0

            def record_call(self, began, seconds):
                turns.append(self.turn)
                self.calls += 1
                self.turn = "torch" if self.turn == "onnxruntime" else "onnxruntime"
                if self.calls == TURNS:
                    self.decision = Decision(kept, 2.0, 1.0)

        monkeypatch.setattr(autotuner, "TimingTrial", Scripted)
        return turns

    return scripted


def compiled(fn, **options):
    """The function, compiled with autotune, and where its records are."""
    storage = {}
    options = {"autotune": True, "hints": False, "storage": storage, **options}
    return torch.compile(fn, backend="ortable", options=options), storage


def model():
    return nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Linear(8, 3)).eval()


def test_a_real_trial_ends_with_one_of_the_two():
    net = model()
    run, storage = compiled(net)
    x = torch.randn(2, 4)
    with torch.no_grad():
        for _ in range(50_000):
            got = run(x)
            if not storage["autotune"][0].is_open:
                break
        torch.testing.assert_close(got, net(x))
        torch.testing.assert_close(run(x), net(x))
    (found,) = storage["autotune"]
    assert found.kept in ("onnxruntime", "torch")
    assert "graph of Sequential.forward" in str(found)


@pytest.mark.parametrize("kept", ["onnxruntime", "torch"])
def test_the_other_one_is_let_go(keep, kept, backends):
    turns = keep(kept)
    net = model()
    run, storage = compiled(net)
    x = torch.randn(2, 4)
    with torch.no_grad():
        for _ in range(TURNS + 3):
            assert_close(run(x), net(x))
        assert turns == ["onnxruntime", "torch"] * (TURNS // 2)
        assert storage["autotune"][0].kept == kept
        if kept == "torch":
            assert torch.equal(run(x), net(x))  # eager's own operators
            session = weakref.ref(backends[0].held[0].session)
            storage.clear()
            backends.clear()
            gc.collect()
            assert session() is None
        else:
            assert len(backends[0].held) == 1


def test_writes_and_random_numbers_happen_once_a_call(keep):
    keep("torch")

    class Counts(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("count", torch.zeros(2))
            self.norm = nn.BatchNorm1d(3)

        def forward(self, x, y):
            self.count += 1
            y.mul_(1.5)
            return nn.functional.dropout(self.norm(x), 0.5) + self.count.sum(), y[0]

    net = Counts().train()
    eager = copy.deepcopy(net)
    run, storage = compiled(net)
    x = torch.randn(4, 3)
    with torch.no_grad():
        for call in range(TURNS + 2):
            mine, theirs = torch.ones(2), torch.ones(2)
            torch.manual_seed(call)
            expected = eager(x, theirs)
            state = torch.random.get_rng_state()
            torch.manual_seed(call)
            got = run(x, mine)
            assert torch.equal(torch.random.get_rng_state(), state)
            assert_close([*got, mine, *net.buffers()], [*expected, theirs, *eager.buffers()])
            assert got[1].data_ptr() == mine.data_ptr()
    assert storage["autotune"][0].kept == "torch"


def test_an_assertion_is_raised_whoever_runs(keep):
    keep("torch")

    def checked(x):
        torch._check(x.sum().item() > 0, lambda: "not positive")
        return x * 2

    run, _ = compiled(checked)
    with torch._dynamo.config.patch(capture_scalar_outputs=True), torch.no_grad():
        for _ in range(TURNS + 2):
            assert_close(run(torch.ones(2)), torch.full((2,), 2.0))
            with pytest.raises(RuntimeError):
                run(-torch.ones(2))


def test_results_have_their_strides_and_aliases_whoever_runs(keep):
    turns = keep("torch")

    def fn(x):
        y = (x * 2).transpose(0, 1)
        return y, y[0], x, torch.relu(x).t().contiguous().t()

    run, _ = compiled(fn)
    x = torch.randn(3, 4)
    with torch.no_grad():
        for _ in range(TURNS + 1):
            got, expected = run(x), fn(x)
            for a, b in zip(got, expected, strict=True):
                assert torch.equal(a, b) and a.stride() == b.stride()
            assert got[0].data_ptr() == got[1].data_ptr() and got[2] is x
    assert "torch" in turns


class Trained(nn.Module):
    """Products, and convolutions, whose gradients torch runs."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(2, 4, 3, padding=1)
        self.norm = nn.BatchNorm2d(4)
        self.head = nn.Sequential(nn.Flatten(), nn.Linear(64, 16), nn.Tanh(), nn.Linear(16, 4))

    def forward(self, x):
        y = self.head(torch.relu(self.norm(self.conv(x))))
        return torch.log_softmax(y, 1) * 2, y.t()


@pytest.mark.parametrize("kept", ["onnxruntime", "torch"])
def test_training_is_right_in_every_combination(keep, kept, every_partition):
    turns = keep(kept)
    net = Trained()
    eager = copy.deepcopy(net)
    run, storage = compiled(net)
    steps = [torch.optim.SGD(each.parameters(), lr=0.1) for each in (net, eager)]
    for _ in range(2 * TURNS + 3):  # the graphs of AOTAutograd, then steps
        x = torch.randn(3, 2, 4, 4)
        for each, step in zip((run, eager), steps, strict=True):
            step.zero_grad()
            first, second = each(x)
            first.mul_(1.0)  # no view that somebody else made
            loss = loss_of(first) + loss_of(second)
            loss.backward()
        assert_close([p.grad for p in net.parameters()], [p.grad for p in eager.parameters()])
        for step in steps:
            step.step()
        assert_close([*net.buffers()], [*eager.buffers()])
    assert {each.kept for each in storage["autotune"]} == {kept}
    assert len(turns) >= 2 * TURNS


def test_training_alternates_forward_and_backward_apart(keep):
    """The forward of torch with the backward of ONNX Runtime, and the other way round."""
    keep("torch")
    net = nn.Sequential(nn.Linear(4, 8), nn.LayerNorm(8), nn.SiLU(), nn.Linear(8, 2))
    eager = copy.deepcopy(net)
    run, storage = compiled(net)
    x = torch.randn(5, 4)
    run(x)  # a forward without a backward: the turns are out of step
    for _ in range(3 * TURNS):
        for each in (run, eager):
            each(x).pow(2).sum().backward()
    assert_close([p.grad for p in net.parameters()], [p.grad for p in eager.parameters()])
    assert [each.kept for each in storage["autotune"]] == ["torch"] * 3


def test_a_step_is_measured_against_eagers_when_its_graphs_are_decided(keep):
    keep("onnxruntime")
    net = nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Linear(8, 2))
    run, storage = compiled(net)
    x = torch.randn(5, 4)
    for _ in range(2 * TURNS + 1):  # the next call notes a step
        run(x).sum().backward()
    assert sorted(each.label.split(" graph")[0] for each in storage["autotune"]) == [
        "a step of the forward",
        "the backward",
        "the forward",
    ]
    assert {each.kept for each in storage["autotune"]} == {"onnxruntime"}


def test_eager_is_what_a_step_becomes(keep, backends):
    keep("torch")
    net = nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Linear(8, 2))
    run, storage = compiled(net)
    x = torch.randn(5, 4)
    for _ in range(3 * TURNS):
        run(x).sum().backward()
    assert type(run(x).grad_fn) is type(net(x).grad_fn)
    assert torch.equal(run(x), net(x))
    made = [weakref.ref(each) for each in backends]
    backends.clear()
    gc.collect()
    assert len(made) == 2 and not any(each() for each in made)  # `storage` keeps none
    assert len(storage["autotune"]) == 3


def test_a_step_whose_backward_never_comes_is_left_to_onnx_runtime(keep):
    """Calls in eval mode with gradients on are not timed for ever."""
    turns = keep("torch")
    net = nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Linear(8, 2))
    run, storage = compiled(net)
    x = torch.randn(5, 4)
    for _ in range(TURNS):
        run(x).sum().backward()
    measured = len(turns)
    for _ in range(20):
        assert_close(run(x), net(x))
    assert len(turns) == measured
    (step,) = [each for each in storage["autotune"] if "a step" in each.label]
    assert "have no backward of their own" in str(step) and not step.is_open
    net.zero_grad()
    run(x).sum().backward()
    got = [p.grad for p in net.parameters()]
    net.zero_grad()
    net(x).sum().backward()
    assert_close(got, [p.grad for p in net.parameters()])


def test_gradients_of_several_calls_are_summed_whoever_runs(keep):
    """Two calls before one backward: neither is timed, both count."""
    keep("torch")
    net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))
    eager = copy.deepcopy(net)
    run, _ = compiled(net)
    xs = torch.randn(2, 5, 4)
    for _ in range(3 * TURNS):
        for each in (run, eager):
            (each(xs[0]).sum() + each(xs[1]).pow(2).sum()).backward()
    assert_close([p.grad for p in net.parameters()], [p.grad for p in eager.parameters()])


def test_gradients_of_some_arguments_alone_are_asked_for_in_a_measured_step(keep):
    turns = keep("torch")
    net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))
    run, storage = compiled(net)
    for _ in range(3 * TURNS):
        x = torch.randn(5, 4, requires_grad=True)
        weights = [x, net[0].weight]
        got = torch.autograd.grad(run(x).pow(2).sum(), weights)
        assert_close(list(got), list(torch.autograd.grad(net(x).pow(2).sum(), weights)))
    assert len(turns) == 3 * TURNS
    assert [each.kept for each in storage["autotune"]] == ["torch"] * 3


def test_random_numbers_of_a_measured_step_are_those_of_eager(keep):
    """A graph that draws is no candidate by itself, and a step of it is."""
    turns = keep("torch")
    net = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.5), nn.Linear(8, 2))
    run, _ = compiled(net)
    x = torch.randn(5, 4)
    for call in range(3 * TURNS):
        got, expected = [], []
        for each, results in ((run, got), (net, expected)):
            net.zero_grad()
            torch.manual_seed(call)
            results.append(each(x))
            results[0].sum().backward()
            results += [p.grad for p in net.parameters()]
        assert_close(got, expected)
    assert "torch" in turns


def test_partitions_of_a_graph_are_measured_and_then_the_whole(keep):
    keep("torch")
    net = nn.Sequential(nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 64)).eval()

    def fn(x):
        return net(torch.bernoulli(torch.sigmoid(net(x)))) + 1

    run, storage = compiled(fn)
    x = torch.randn(8, 64)
    with torch.no_grad():
        for call in range(3 * TURNS):
            torch.manual_seed(call)
            expected = fn(x)
            torch.manual_seed(call)
            assert_close(run(x), expected)
    *parts, whole = storage["autotune"]
    assert parts and all("partition" in each.label for each in parts)
    assert [each.kept for each in (*parts, whole)] == ["torch"] * (len(parts) + 1)


def test_sizes_that_differ_have_decisions_of_their_own(keep):
    keep("torch")
    run, storage = compiled(lambda x: torch.tanh(x) @ x.T)
    with torch.no_grad():
        for rows in (4, 5, 6, 7, 5, 6, 7, 60, 61):
            x = torch.randn(rows, 3)
            torch._dynamo.mark_dynamic(x, 0)
            assert_close(run(x), torch.tanh(x) @ x.T)
    (found,) = storage["autotune"]
    assert found.is_open and [*found.decisions] == [(3,)]
    assert "sizes of class 3: torch is kept" in str(found)


def test_a_class_of_own_aot_autograd_is_measured(keep):
    keep("torch")
    storage = {}

    def compiler(gm, args):
        return ortable.onnx_custom_backend(gm, args, autotune=True, storage=storage)

    net = model()
    run = torch.compile(
        net, backend=aot_autograd(fw_compiler=compiler, inference_compiler=compiler)
    )
    x = torch.randn(2, 4)
    with torch.no_grad():
        for _ in range(TURNS + 2):
            assert_close(run(x), net(x))
    assert [each.kept for each in storage["autotune"]] == ["torch"]


def test_torch_is_pinned_and_nothing_is_converted(backends):
    net = model()
    run, storage = compiled(net, autotune="torch")
    x = torch.randn(2, 4, requires_grad=True)
    assert torch.equal(run(x), net(x))
    run(x).sum().backward()
    assert x.grad is not None and not backends and "instance" not in storage


def test_without_the_option_nothing_is_measured(backends):
    net = model()
    run, storage = compiled(net, autotune=False)
    with torch.no_grad():
        run(torch.randn(2, 4))
    assert "autotune" not in storage and len(backends) == 1


def test_a_branch_in_a_graph_is_left_to_onnx_runtime():
    def fn(x):
        return torch.cond(x.sum() > 0, lambda x: x + 1, lambda x: x - 1, (x,))

    run, storage = compiled(fn)
    with torch.no_grad():
        assert_close(run(torch.ones(3)), torch.full((3,), 2.0))
    assert "autotune" not in storage


def test_a_decision_is_logged(keep, caplog):
    keep("torch")
    run, _ = compiled(model())
    with torch.no_grad(), caplog.at_level(logging.INFO, logger="ortable"):
        for _ in range(TURNS):
            run(torch.randn(2, 4))
    (line,) = [each.message for each in caplog.records if "autotune" in each.message]
    assert "torch is kept: 1000.00 ms a call, 2000.00 ms in ONNX Runtime" in line
    assert "the inference graph of Sequential.forward" in line


def test_explain_tells_what_is_kept(keep):
    keep("torch")
    net = model()
    told = ortable.explain(net, torch.randn(2, 4), options={"autotune": True})
    (note,) = [each for each in told.notes if each.startswith("autotune")]
    assert "torch is kept" in note and note in str(told)


def test_explain_runs_once_without_the_option():
    told = ortable.explain(model(), torch.randn(2, 4))
    assert not any("autotune" in each for each in told.notes)


# -- decisions that were taken before


def calls_measured(net, turns, **options):
    """How many calls of a new compilation were measured, of some."""
    torch._dynamo.reset()
    before = len(turns)
    run, storage = compiled(net, **options)
    x = torch.randn(2, 4)
    with torch.no_grad():
        for _ in range(TURNS + 1):
            assert_close(run(x), net(x))
    assert storage["autotune"][0].kept == "torch"
    return len(turns) - before


def test_a_decision_holds_for_equal_graphs_of_the_process(keep):
    turns = keep("torch")
    assert calls_measured(model(), turns) == TURNS
    assert calls_measured(model(), turns) == 0
    wider = nn.Sequential(nn.Linear(4, 9), nn.GELU(), nn.Linear(9, 3)).eval()
    assert calls_measured(wider, turns) == TURNS


def test_a_decision_is_found_on_disk(keep, tmp_path):
    turns = keep("torch")
    folder = {"cache_dir": str(tmp_path)}
    assert calls_measured(model(), turns, **folder) == TURNS
    (path,) = tmp_path.glob("*.autotune")
    assert json.loads(path.read_text())["kept"] == "torch"
    decisions.STORE.clear()
    assert calls_measured(model(), turns, **folder) == 0


def test_a_damaged_file_is_measured_again(keep, tmp_path):
    turns = keep("torch")
    folder = {"cache_dir": str(tmp_path)}
    calls_measured(model(), turns, **folder)
    (path,) = tmp_path.glob("*.autotune")
    path.write_text('{"kept": "rm", "onnxruntime": 1, "torch": 1}')
    decisions.STORE.clear()
    with pytest.warns(RuntimeWarning, match="is measured again"):
        assert calls_measured(model(), turns, **folder) == TURNS
    assert json.loads(path.read_text())["kept"] == "torch"


@pytest.mark.parametrize("what", ["processor", "threads", "versions"])
def test_another_machine_measures_again(keep, tmp_path, monkeypatch, what):
    turns = keep("torch")
    folder = {"cache_dir": str(tmp_path)}
    calls_measured(model(), turns, **folder)
    decisions.STORE.clear()
    threads = torch.get_num_threads()
    if what == "processor":
        monkeypatch.setattr(decisions, "describe_processor", lambda: "another one")
    elif what == "versions":
        monkeypatch.setattr(decisions, "disk_key", lambda key: f"newer-{key}")
    else:
        torch.set_num_threads(threads + 1)
    try:
        assert calls_measured(model(), turns, **folder) == TURNS
    finally:
        torch.set_num_threads(threads)


def test_a_folder_that_cannot_be_written_is_a_warning(tmp_path):
    path = tmp_path / "a file"
    path.write_text("")
    found = decisions.Decisions(["key"], str(path))
    with pytest.warns(RuntimeWarning, match="cannot be written"):
        found.store_decision((), Decision("torch", 2.0, 1.0))
    assert found.find_decision(()) == Decision("torch", 2.0, 1.0)


def test_the_processor_is_told_once():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert decisions.describe_processor() and (
            decisions.describe_processor() is decisions.describe_processor()
        )


# -- several threads


def test_threads_at_once_get_their_own_results(keep):
    keep("torch")
    net = model()
    run, _ = compiled(net)
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
        for each in workers:
            each.start()
        for each in workers:
            each.join()
    assert not failures


def test_no_warning_with_the_option(keep):
    keep("torch")
    net = model()
    run, _ = compiled(net)
    with every_warning_an_error(), torch.no_grad():
        for _ in range(TURNS + 1):
            run(torch.randn(2, 4))


def test_what_is_measured_prints_in_one_line(keep):
    keep("torch")
    run, storage = compiled(nn.Linear(4, 4))
    run(torch.randn(2, 4)).sum().backward()
    assert repr(storage["autotune"][0]) == (
        f"Autotuner({storage['autotune'][0].label}: measured in its next calls)"
    )
    assert repr(AutotunedGraph(storage["autotune"][0], None)).startswith("AutotunedGraph(")
