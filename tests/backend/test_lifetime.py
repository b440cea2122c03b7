"""Compiled objects are released with their module, with the compiled code, or with the process."""

from __future__ import annotations

import gc
import multiprocessing
import os
import subprocess
import sys
import sysconfig
import threading
import time
import weakref
from pathlib import Path

import pytest
import torch

from ortable.backend.execute import weights
from ortable.backend.execute.call import OrtBackend
from tests.backend import asserting

ROOT = Path(__file__).parents[2]
PATHS = os.pathsep.join(str(ROOT / name) for name in ("runtime", "generated", "codegen"))


@pytest.fixture
def backends(monkeypatch):
    """Return weak references to every `OrtBackend` created in the test."""
    references = []
    init = OrtBackend.__init__

    def init_and_record(self, *args, **kwargs):
        init(self, *args, **kwargs)
        references.append(weakref.ref(self))

    monkeypatch.setattr(OrtBackend, "__init__", init_and_record)
    return references


class Model(torch.nn.Module):
    def __init__(self, size=8):
        super().__init__()
        self.linear = torch.nn.Linear(size, size)

    def forward(self, x):
        return torch.relu(self.linear(x))


def run(model, size=8, **options):
    with torch.no_grad():
        return torch.compile(model, backend="ortable", options=options or None)(torch.ones(2, size))


def collect():
    """Collect twice without the GIL, where the first collection frees only the call's function."""
    gc.collect()
    if sysconfig.get_config_var("Py_GIL_DISABLED"):
        gc.collect()


def test_a_session_with_constants_dies_with_its_module(backends):
    model = Model()
    run(model)
    (backend,) = backends
    session = weakref.ref(backend().session)
    weight = weakref.ref(model.linear.weight)
    gc.collect()
    assert session() is not None
    del model
    collect()
    assert session() is None
    assert weight() is None


def test_weights_that_are_inputs_die_with_their_module():
    model = Model()
    run(model, freeze="off")
    weight = weakref.ref(model.linear.weight)
    del model
    gc.collect()
    assert weight() is None


def test_weights_of_a_training_step_die_with_their_module():
    def train_once() -> weakref.ref:
        # A separate function, because the first compilation of a process reads the locals of its
        # callers' frames, which then keep the model alive as long as the frame.
        model = Model()
        torch.compile(model, backend="ortable")(torch.ones(2, 8)).sum().backward()
        return weakref.ref(model.linear.weight)

    weight = train_once()
    gc.collect()
    assert weight() is None


def test_a_weight_that_is_replaced_is_let_go(backends):
    model = Model()
    run(model)
    weight = weakref.ref(model.linear.weight)
    model.linear.weight = torch.nn.Parameter(torch.ones(8, 8))
    collect()
    assert weight() is None
    torch.testing.assert_close(run(model), model(torch.ones(2, 8)))


@pytest.mark.parametrize("reports_full", [True, False])
def test_collections_that_do_not_say_that_they_are_full(monkeypatch, reports_full):
    """Where Python reports no full collections, any collection triggers a sweep, once a second."""
    clock = [10.0]
    monkeypatch.setattr(weights, "_REPORTS_FULL_COLLECTIONS", reports_full)
    monkeypatch.setattr(weights, "_last_sweep", 0.0)
    monkeypatch.setattr(weights.time, "monotonic", lambda: clock[0])
    sweeps = []
    monkeypatch.setattr(weights, "release_abandoned", lambda: sweeps.append(clock[0]))
    for clock[0] in (10.0, 10.5, 11.5):
        weights._on_collection("start", {"generation": 0})
        weights._on_collection("stop", {"generation": 0})
    assert sweeps == ([] if reports_full else [10.0, 11.5])
    weights._on_collection("stop", {"generation": 2})
    assert len(sweeps) == (1 if reports_full else 3)


def test_a_weight_goes_although_nobody_asks_for_a_collection(backends):
    model = Model()
    run(model)
    weight = weakref.ref(model.linear.weight)
    del model
    deadline = time.monotonic() + 60
    garbage = []
    while weight() is not None and time.monotonic() < deadline:
        garbage.append([[] for _ in range(1000)])
    assert weight() is None


@pytest.mark.parametrize("freeze", ["auto", "off"])
def test_backends_and_sessions_die_with_the_compiled_code(freeze, backends):
    model = Model()
    run(model, freeze=freeze)
    session = weakref.ref(backends[0]().session)
    torch._dynamo.reset()
    gc.collect()
    assert backends[0]() is None
    assert session() is None


def test_no_reference_cycle_keeps_a_session(backends):
    """The memory is freed at once, not by the next garbage collection."""
    model = Model()
    run(model)
    backend = backends[0]()
    session = weakref.ref(backend.session)
    frozen = next(iter(backend._frozen_sets.values()))
    gc.collect()
    gc.disable()
    try:
        frozen.release()
        del frozen
        assert session() is None
        assert backend.session is None
    finally:
        gc.enable()


class ModuleWithAssertion(torch.nn.Module):
    """A module with an asserted size; ONNX Runtime fails if the assertion does not hold."""

    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(2, 2)

    def forward(self, x):
        return asserting.size_from_data(x), self.linear(x)


@pytest.mark.parametrize("freeze", ["auto", "off"])
def test_a_call_with_assertions_keeps_nobody_alive(freeze, backends):
    """A failing call keeps neither the compiled graph nor its arguments alive."""
    model = ModuleWithAssertion()
    options = {"freeze": freeze}
    with torch._dynamo.config.patch(capture_scalar_outputs=True), torch.no_grad():
        torch.compile(model, backend="ortable", options=options, fullgraph=True)(torch.ones(2))
    instance = backends[0]()
    parameters = list(model.parameters())
    roles = instance.compiled.inputs
    torch._dynamo.reset()
    gc.collect()
    gc.disable()
    try:
        x = torch.full((2,), -2.0)
        args = [next((p for p in parameters if p.shape == r.shape), x) for r in roles]
        args[[r.static for r in roles].index(False)] = x
        with pytest.raises(RuntimeError, match=r"^below 0$"):
            instance(args)
        argument, backend = weakref.ref(x), backends[0]
        del x
        assert argument() is None
        del instance
        assert backend() is None
    finally:
        gc.enable()


COMPILE_MANY = """
import gc, os, torch
from pathlib import Path
from ortable.backend.aot.entry import ortable
torch.set_num_threads(2)
def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
def threads():
    return len(os.listdir("/proc/self/task"))
class Model(torch.nn.Module):
    def __init__(self, size):
        super().__init__()
        self.linear = torch.nn.Linear(size, size)
    def forward(self, x):
        return torch.relu(self.linear(x))
def one(number):
    model = Model(500 + number % 5)  # a megabyte of weights, as much again in the session
    with torch.no_grad():
        torch.compile(model, backend=ortable, dynamic=False)(torch.ones(2, 500 + number % 5))
def many(count):
    for number in range(count):
        one(number)
        if number % 20 == 19:
            torch._dynamo.reset()
    torch._dynamo.reset()
    gc.collect()
many(20)
before, threads_before = resident(), threads()
many(200)
print(resident() - before, threads() - threads_before)
"""


def run_python(code, timeout=120):
    environment = dict(os.environ, PYTHONPATH=PATHS, OMP_NUM_THREADS="2")
    return subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=timeout,
        env=environment,
    )


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="reads memory from /proc")
def test_many_graphs_give_their_memory_and_threads_back():
    process = run_python(COMPILE_MANY)
    assert process.returncode == 0, process.stderr
    memory, threads = map(int, process.stdout.split())
    # 200 graphs have 400 MB of weights and constants; torch itself retains less than a sixth.
    assert memory < 64e6
    assert threads == 0


@pytest.mark.slow
@pytest.mark.parametrize("freeze", ["auto", "off"])
@pytest.mark.parametrize("grad", [False, True])
def test_the_interpreter_exits_in_silence(freeze, grad):
    process = run_python(
        f"""
import torch
from ortable.backend.aot.entry import ortable
torch.set_num_threads(2)
model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU())
compiled = torch.compile(model, backend=ortable, options={{"freeze": {freeze!r}}})
with torch.set_grad_enabled({grad}):
    kept = compiled(torch.ones(2, 64))
    if {grad}:
        kept.sum().backward()
"""
    )
    assert (process.returncode, process.stdout, process.stderr) == (0, "", "")


FORK = """
import os, sys, torch
from ortable.backend.aot.entry import ortable
torch.set_num_threads(2)
model = torch.nn.Sequential(torch.nn.Linear(256, 256), torch.nn.ReLU(), torch.nn.Linear(256, 256))
compiled = torch.compile(model, backend=ortable, options={"freeze": FREEZE})
x = torch.randn(64, 256)
with torch.no_grad():
    expected = compiled(x)
    child = os.fork()
    if child == 0:
        # no operator of torch on two threads: its own do not exist here either
        first = compiled(x).tolist() == expected.tolist()
        model[0].bias.data.fill_(3.0)
        model[0].bias.add_(1.0)
        changed = compiled(x).tolist() != expected.tolist()
        os._exit(0 if first and changed else 1)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    torch.testing.assert_close(compiled(x), expected)
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="the platform does not fork")
@pytest.mark.parametrize("freeze", ["auto", "off"])
def test_a_forked_child_makes_sessions_of_its_own(freeze):
    process = run_python(FORK.replace("FREEZE", repr(freeze)), timeout=60)
    assert (process.returncode, process.stdout, process.stderr) == (0, "", "")


FORK_FIRST = """
import os, sys, torch
from ortable.backend.aot import build
from ortable.backend.aot.entry import ortable
child = os.fork()
if child == 0:
    with torch.no_grad():
        torch.compile(torch.nn.Linear(2, 2), backend=ortable)(torch.ones(1, 2))
    sys.exit(3)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="the platform does not fork")
def test_a_child_that_was_forked_before_the_first_model_ends():
    """onnxruntime is imported and nothing compiled, as in a server that preloads its code."""
    process = run_python(FORK_FIRST, timeout=60)
    assert (process.returncode, process.stdout, process.stderr) == (0, "", "")


def _compile_in_child(model, batch, queue):
    from ortable.backend.aot.entry import ortable

    with torch.no_grad():
        queue.put(torch.compile(model, backend=ortable)(batch).tolist())


@pytest.mark.slow
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_processes(method, monkeypatch):
    if method not in multiprocessing.get_all_start_methods():
        pytest.skip("the platform does not fork")
    model, batch = torch.nn.Linear(8, 8), torch.randn(2, 8)
    expected = run(model)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([PATHS, str(ROOT)]))
    context = multiprocessing.get_context(method)
    queue = context.Queue()
    process = context.Process(target=_compile_in_child, args=(model, batch, queue))
    process.start()
    got = torch.tensor(queue.get(timeout=60))
    process.join(60)
    assert process.exitcode == 0
    with torch.no_grad():
        torch.testing.assert_close(got, model(batch))
    torch.testing.assert_close(run(model), expected)


class _FakeOwner:
    references = 1
    storages = frozenset()

    def __init__(self):
        self.tensors = []

    def release(self):
        pass

    def invalidate(self):
        pass


def test_weights_are_looked_through_while_threads_add_some():
    owners = [_FakeOwner() for _ in range(300)]
    for owner in owners:
        weights.watch_weights(owner)
    stop = threading.Event()

    def add_owners():
        while not stop.is_set():
            more_owners = [_FakeOwner() for _ in range(50)]
            for owner in more_owners:
                weights.watch_weights(owner)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    thread = threading.Thread(target=add_owners)
    thread.start()
    try:
        for _ in range(300):
            weights.release_abandoned()
    finally:
        stop.set()
        thread.join()
        sys.setswitchinterval(interval)
