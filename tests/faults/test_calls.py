"""Failures during compilation or calls yield errors, and the next call works."""

from __future__ import annotations

import copy
import errno
import gc
import itertools
import os
import signal
import threading
from typing import Any

import onnxruntime
import pytest
import torch
from torch._dynamo.exc import BackendCompilerFailed

import ortable
from ortable.backend.aot import forward_only
from ortable.backend.cache.memory import conversions
from ortable.errors import ProviderError
from ortable_generated.aten import dispatch
from tests.child import python

from .test_interrupts import CountingModel, PlainModel, X

# sessions of `_run_calls`: weights as inputs, frozen weights, forward, backward
SESSION_INDICES = (0, 1, 2, 3)
_unique_numbers = itertools.count(1)


class UniqueModel(CountingModel):
    """A module with a new graph, so that no cached session exists."""

    def __init__(self) -> None:
        super().__init__()
        self.number = float(next(_unique_numbers))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x) / self.number


def _run_calls(model: Any, module: torch.nn.Module) -> list[torch.Tensor]:
    """Run inference until weights are frozen and after they changed, then a training step."""
    with torch.no_grad():
        results = [model(X) for _ in range(3)]
        module.get_parameter("layers.0.weight").mul_(0.5)
        results.append(model(X))
    module.zero_grad()
    result = model(X)
    result.sum().backward()
    return [*results, result.detach(), *(weight.grad.clone() for weight in module.parameters())]


def _compile_fresh(module: torch.nn.Module, **options: Any) -> Any:
    torch._dynamo.reset()
    gc.collect()
    conversions.clear()
    return torch.compile(module, backend="ortable", options=options)


def _assert_equal_to_eager(model: Any, module: torch.nn.Module) -> None:
    state = {name: value.clone() for name, value in module.state_dict().items()}
    results = _run_calls(model, module)
    module.load_state_dict(state)
    torch.testing.assert_close(results, _run_calls(module, module))


@pytest.mark.parametrize(
    ("failure", "message"),
    [
        (RuntimeError("Exception during initialization: std::bad_alloc"), "not enough memory"),
        pytest.param(MemoryError(), "of ONNX Runtime: MemoryError", marks=pytest.mark.slow),
        pytest.param(
            OSError(errno.EMFILE, "Too many open files"),
            "Too many open files",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_a_session_that_cannot_be_made(failure: Exception, message: str, monkeypatch: Any) -> None:
    original, failed = onnxruntime.InferenceSession, 0
    for target in SESSION_INDICES:
        module = UniqueModel()
        model = _compile_fresh(module)
        indices = iter(range(100))

        def make(*args: Any, target: int = target, indices: Any = indices, **kwargs: Any) -> Any:
            if next(indices) == target:
                raise failure
            return original(*args, **kwargs)

        with monkeypatch.context() as patch:
            patch.setattr(onnxruntime, "InferenceSession", make)
            try:
                _run_calls(model, module)
            except (ProviderError, BackendCompilerFailed) as error:
                assert message in str(getattr(error, "inner_exception", error))
                failed += 1
        _assert_equal_to_eager(model, module)
    assert failed == 3, "the backward should retry without an error"


def test_a_backward_that_cannot_be_made_yet_says_so_at_each_call(monkeypatch: Any) -> None:
    original, module, sessions = onnxruntime.InferenceSession, UniqueModel(), []
    eager = copy.deepcopy(module)

    def make(*args: Any, **kwargs: Any) -> Any:
        if sessions:
            raise RuntimeError("Exception during initialization: std::bad_alloc")
        sessions.append(original(*args, **kwargs))
        return sessions[-1]

    with monkeypatch.context() as patch:
        patch.setattr(onnxruntime, "InferenceSession", make)
        loss = _compile_fresh(module)(X).sum()
        for _ in range(2):
            with pytest.raises(ProviderError, match="not enough memory") as error:
                loss.backward(retain_graph=True)
            assert str(error.value).startswith("The backward of this graph cannot be compiled. ")
    loss.backward()
    eager(X).sum().backward()
    for weight, expected in zip(module.parameters(), eager.parameters(), strict=True):
        torch.testing.assert_close(weight.grad, expected.grad)


MEMORY_SCRIPT = """
import re, resource, torch
model, small = torch.nn.Linear(6000, 6000, bias=False), torch.nn.Linear(4, 4)
compiled, x = torch.compile(model, backend="ortable"), torch.ones(1, 6000)
with torch.no_grad():
    torch.compile(small, backend="ortable")(torch.ones(1, 4))
    used = int(re.search(r"VmSize:\\s+(\\d+)", open("/proc/self/status").read())[1]) * 1024
    resource.setrlimit(resource.RLIMIT_AS, (used + 100 * 2**20, -1))
    for _ in range(2):
        try:
            compiled(x)
        except Exception as error:
            print(str(getattr(error, "inner_exception", error)))
    resource.setrlimit(resource.RLIMIT_AS, (-1, -1))
    torch.testing.assert_close(compiled(x), model(x), rtol=1e-3, atol=1e-3)
"""


@pytest.mark.slow
@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="asks Linux for its memory")
def test_weights_that_do_not_fit_into_memory() -> None:
    """The process has a memory limit, so ONNX Runtime cannot copy the weights."""
    process = python("-W", "ignore", "-c", MEMORY_SCRIPT)
    assert process.returncode == 0, process.stderr
    assert process.stdout.count("There is not enough memory for a session") == 2
    assert "freeze='off'" in process.stdout


EXPORT_SCRIPT = """
import os, re, resource, sys, torch, ortable
model, x = torch.nn.Linear(6000, 6000, bias=False), torch.ones(1, 6000)
program = ortable.export(model, (x,), input_names=["x"])
used = int(re.search(r"VmSize:\\s+(\\d+)", open("/proc/self/status").read())[1]) * 1024
for external in (False, True):
    resource.setrlimit(resource.RLIMIT_AS, (used + 20 * 2**20, -1))
    try:
        program.save("m.onnx", external_data=external)
    except (ortable.ExportError, MemoryError) as error:
        print(type(error).__name__, error)
    resource.setrlimit(resource.RLIMIT_AS, (-1, -1))
    assert os.listdir() == [], os.listdir()
for external in (False, True):
    program.save("m.onnx", external_data=external)
torch.testing.assert_close(program(x), model(x), rtol=1e-3, atol=1e-3)
"""


@pytest.mark.slow
@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="asks Linux for its memory")
def test_an_initializer_that_does_not_fit_into_memory(tmp_path: Any) -> None:
    """The process has a memory limit and saves the weights within the model file."""
    process = python("-W", "ignore", "-c", EXPORT_SCRIPT, cwd=tmp_path)
    assert process.returncode == 0, process.stderr
    inline_error, external_error = process.stdout.splitlines()
    assert inline_error.startswith("ExportError there is not enough memory to serialize the model")
    assert external_error.startswith("MemoryError")


class FailingStorage(dict[str, Any]):
    """A storage whose writes raise."""

    def __setitem__(self, name: str, value: Any) -> None:
        raise ValueError("the storage is full")

    def setdefault(self, name: str, value: Any = None) -> Any:
        raise ValueError("the storage is full")


def _raise_error(*args: Any, **kwargs: Any) -> Any:
    raise ValueError("of the user's own")


FAILING_DECOMPOSITION = ortable.ExportOptions(
    decomposition_table={torch.ops.aten.tanh.default: _raise_error}  # type: ignore[dict-item]
)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"pre_ort_model_transforms": _raise_error}, "of the user's own"),
        ({"storage": FailingStorage()}, "the storage is full"),
        ({"export_options": FAILING_DECOMPOSITION}, "of the user's own"),
    ],
    ids=["transform", "storage", "decomposition"],
)
def test_code_of_the_user_that_raises(options: dict[str, Any], message: str) -> None:
    module = CountingModel()
    with pytest.raises(BackendCompilerFailed) as caught, torch.no_grad():
        _compile_fresh(module, **options)(X)
    assert message in str(caught.value.inner_exception)
    _assert_equal_to_eager(_compile_fresh(module), module)


def test_a_converter_of_the_user_that_raises() -> None:
    module = CountingModel()
    dispatcher = ortable.Dispatcher({"aten::tanh": _raise_error})
    with pytest.raises(ortable.OrtableError, match="of the user's own") as caught:
        ortable.to_onnx(module, (X,), dispatcher=dispatcher)
    assert "tanh" in str(caught.value)
    ortable.to_onnx(module, (X,), validate=True)


def test_a_decomposition_of_the_user_that_raises_in_an_export() -> None:
    with pytest.raises(ortable.ExportError, match="of the user's own"):
        ortable.to_onnx(PlainModel(), (X,), export_options=FAILING_DECOMPOSITION)
    ortable.to_onnx(PlainModel(), (X,), validate=True)


FAILING_SPEC = """
- op: aten::tanh(Tensor self) -> Tensor
  out: {shape: same(self), dtype: same(self)}
  lower:
    python: mine
    why: it raises
  samples: [{self: "f32[2,3]"}]
"""


@pytest.mark.usefixtures("own_specs")
def test_a_function_of_the_user_s_specs_that_raises(tmp_path: Any) -> None:
    """The error names the operator; without the spec the model compiles again."""
    path, module = tmp_path / "own.yaml", PlainModel()
    path.write_text(FAILING_SPEC)
    converters_before = dict(dispatch.CONVERTERS)
    ortable.load_specs(path, lowerings={"mine": _raise_error}, override=True)
    with pytest.raises(BackendCompilerFailed) as caught:
        _compile_fresh(module, fallback="error")(X)
    with pytest.raises(ortable.OrtableError, match="of the user's own") as exported:
        ortable.to_onnx(module, (X,))
    for error in (caught.value.inner_exception, exported.value):
        assert "of the user's own" in str(error) and "aten::tanh" in str(error)
    dispatch.CONVERTERS.update(converters_before)
    torch.testing.assert_close(_compile_fresh(module)(X), module(X))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the platform does not fork")
def test_a_fork_while_another_thread_makes_a_graph_for_inference(monkeypatch: Any) -> None:
    """The child lacks the other thread and its locks, and compiles the graph itself."""
    module = PlainModel()
    model, expected = _compile_fresh(module), module(X)
    for _ in range(3):
        model(X)
    started, resume, inner = threading.Event(), threading.Event(), forward_only._compile_inference

    def wait_and_compile(forward: Any) -> Any:
        started.set()
        assert resume.wait(60)
        return inner(forward)

    monkeypatch.setattr(forward_only, "_compile_inference", wait_and_compile)
    thread = threading.Thread(target=model, args=(X,))
    thread.start()
    assert started.wait(60)
    child = os.fork()
    if child == 0:
        signal.alarm(30)
        forward_only._compile_inference = inner
        os._exit(0 if torch.allclose(model(X), expected) else 1)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    resume.set()
    thread.join(60)
    assert status == 0
    torch.testing.assert_close(model(X), expected)


LOADER_SCRIPT = """
import os, sys, torch
from torch.utils.data import DataLoader, Dataset

model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
compiled = torch.compile(model, backend="ortable")
torch.set_num_threads(1)

class Rows(Dataset):
    def __len__(self):
        return 12
    def __getitem__(self, index):
        with torch.no_grad():  # a session of the worker's own
            return torch.full((4,), float(index)) + 0 * compiled(torch.ones(1, 4)).sum()

def main():
    optimizer = torch.optim.SGD(model.parameters(), 1e-3)
    for epoch in range(2):
        for rows in DataLoader(Rows(), batch_size=4, num_workers=2):
            optimizer.zero_grad()
            compiled(rows).sum().backward()
            expected = [p.grad.clone() for p in model.parameters()]
            optimizer.zero_grad()
            model(rows).sum().backward()
            torch.testing.assert_close([p.grad for p in model.parameters()], expected)
            optimizer.step()
    child = os.fork()
    if child == 0:
        with torch.no_grad():
            compiled(torch.ones(1, 4))
        sys.exit(3)  # with everything that an interpreter does at its end
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3
    with torch.no_grad():
        torch.testing.assert_close(compiled(torch.ones(1, 4)), model(torch.ones(1, 4)))

main()
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="the platform does not fork")
def test_workers_of_a_loader_and_a_child_that_exits(tmp_path: Any) -> None:
    """Workers are forked from a process with sessions and call the compiled model."""
    script = tmp_path / "leaving.py"
    script.write_text(LOADER_SCRIPT)
    process = python("-W", "ignore", script)
    assert (process.returncode, process.stderr) == (0, "")
