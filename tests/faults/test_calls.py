"""What fails while a model is compiled or called, other than by Ctrl-C: sessions that cannot be
made, memory, code of the user's that raises, processes that leave early. An error says so, and the
next call works."""

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

from .test_interrupts import Counting, Plain, X

AT = (0, 1, 2, 3)  # the sessions of `_calls`: with inputs, with constants, forward, backward
_numbers = itertools.count(1)


class Another(Counting):
    """A graph that no other module has, so that no session is there already."""

    def __init__(self) -> None:
        super().__init__()
        self.number = float(next(_numbers))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x) / self.number


def _calls(model: Any, module: torch.nn.Module) -> list[torch.Tensor]:
    """Inference until weights are constants and after they changed, then a step of training."""
    with torch.no_grad():
        found = [model(X) for _ in range(3)]
        module.get_parameter("layers.0.weight").mul_(0.5)
        found.append(model(X))
    module.zero_grad()
    result = model(X)
    result.sum().backward()
    return [*found, result.detach(), *(each.grad.clone() for each in module.parameters())]


def _fresh(module: torch.nn.Module, **options: Any) -> Any:
    torch._dynamo.reset()
    gc.collect()
    conversions.clear()
    return torch.compile(module, backend="ortable", options=options)


def _assert_works(model: Any, module: torch.nn.Module) -> None:
    state = {name: value.clone() for name, value in module.state_dict().items()}
    got = _calls(model, module)
    module.load_state_dict(state)
    torch.testing.assert_close(got, _calls(module, module))


@pytest.mark.parametrize(
    ("refused", "said"),
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
def test_a_session_that_cannot_be_made(refused: Exception, said: str, monkeypatch: Any) -> None:
    plain, failed = onnxruntime.InferenceSession, 0
    for at in AT:
        module = Another()
        model = _fresh(module)
        numbers = iter(range(100))

        def make(*args: Any, at: int = at, numbers: Any = numbers, **kwargs: Any) -> Any:
            if next(numbers) == at:
                raise refused
            return plain(*args, **kwargs)

        with monkeypatch.context() as patch:
            patch.setattr(onnxruntime, "InferenceSession", make)
            try:
                _calls(model, module)
            except (ProviderError, BackendCompilerFailed) as error:
                assert said in str(getattr(error, "inner_exception", error))
                failed += 1
        _assert_works(model, module)
    assert failed == 3, "the backward tries again by itself"


def test_a_backward_that_cannot_be_made_yet_says_so_at_each_call(monkeypatch: Any) -> None:
    plain, module, made = onnxruntime.InferenceSession, Another(), []
    eager = copy.deepcopy(module)

    def make(*args: Any, **kwargs: Any) -> Any:
        if made:
            raise RuntimeError("Exception during initialization: std::bad_alloc")
        made.append(plain(*args, **kwargs))
        return made[-1]

    with monkeypatch.context() as patch:
        patch.setattr(onnxruntime, "InferenceSession", make)
        loss = _fresh(module)(X).sum()
        for _ in range(2):
            with pytest.raises(ProviderError, match="not enough memory") as error:
                loss.backward(retain_graph=True)
            assert str(error.value).startswith("The backward of this graph cannot be compiled. ")
    loss.backward()
    eager(X).sum().backward()
    for one, two in zip(module.parameters(), eager.parameters(), strict=True):
        torch.testing.assert_close(one.grad, two.grad)


MEMORY = """
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
    """A real limit: ONNX Runtime cannot copy the weights."""
    done = python("-W", "ignore", "-c", MEMORY)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("There is not enough memory for a session") == 2
    assert "freeze='off'" in done.stdout


EXPORT = """
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
    """A real limit again: the weights of a model that is saved in one piece."""
    done = python("-W", "ignore", "-c", EXPORT, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    one_piece, beside = done.stdout.splitlines()
    assert one_piece.startswith("ExportError there is not enough memory to write the model")
    assert beside.startswith("MemoryError")


class Refusing(dict[str, Any]):
    """A storage that cannot store."""

    def __setitem__(self, name: str, value: Any) -> None:
        raise ValueError("the storage is full")

    def setdefault(self, name: str, value: Any = None) -> Any:
        raise ValueError("the storage is full")


def _raising(*args: Any, **kwargs: Any) -> Any:
    raise ValueError("of the user's own")


OF_THE_USER = ortable.ExportOptions(
    decomposition_table={torch.ops.aten.tanh.default: _raising}  # type: ignore[dict-item]
)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"pre_ort_model_transforms": _raising}, "of the user's own"),
        ({"storage": Refusing()}, "the storage is full"),
        ({"export_options": OF_THE_USER}, "of the user's own"),
    ],
    ids=["transform", "storage", "decomposition"],
)
def test_code_of_the_user_that_raises(options: dict[str, Any], said: str) -> None:
    module = Counting()
    with pytest.raises(BackendCompilerFailed) as caught, torch.no_grad():
        _fresh(module, **options)(X)
    assert said in str(caught.value.inner_exception)
    _assert_works(_fresh(module), module)


def test_a_converter_of_the_user_that_raises() -> None:
    module = Counting()
    dispatcher = ortable.Dispatcher({"aten::tanh": _raising})
    with pytest.raises(ortable.OrtableError, match="of the user's own") as caught:
        ortable.to_onnx(module, (X,), dispatcher=dispatcher)
    assert "tanh" in str(caught.value)
    ortable.to_onnx(module, (X,), validate=True)


def test_a_decomposition_of_the_user_that_raises_in_an_export() -> None:
    with pytest.raises(ortable.ExportError, match="of the user's own"):
        ortable.to_onnx(Plain(), (X,), export_options=OF_THE_USER)
    ortable.to_onnx(Plain(), (X,), validate=True)


SPEC = """
- op: aten::tanh(Tensor self) -> Tensor
  out: {shape: same(self), dtype: same(self)}
  lower:
    python: mine
    why: it raises
  samples: [{self: "f32[2,3]"}]
"""


@pytest.mark.usefixtures("own_specs")
def test_a_function_of_the_user_s_specs_that_raises(tmp_path: Any) -> None:
    """As a converter, in a compilation and in an export; with another file all is well again."""
    path, module = tmp_path / "own.yaml", Plain()
    path.write_text(SPEC)
    before = dict(dispatch.CONVERTERS)
    ortable.load_specs(path, lowerings={"mine": _raising}, override=True)
    with pytest.raises(BackendCompilerFailed) as caught:
        _fresh(module, fallback="error")(X)
    with pytest.raises(ortable.OrtableError, match="of the user's own") as exported:
        ortable.to_onnx(module, (X,))
    for error in (caught.value.inner_exception, exported.value):
        assert "of the user's own" in str(error) and "aten::tanh" in str(error)
    dispatch.CONVERTERS.update(before)
    torch.testing.assert_close(_fresh(module)(X), module(X))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the platform does not fork")
def test_a_fork_while_another_thread_makes_a_graph_for_inference(monkeypatch: Any) -> None:
    """The thread, and what it held, do not exist in the child, which makes the graph itself."""
    module = Plain()
    model, expected = _fresh(module), module(X)
    for _ in range(3):
        model(X)
    inside, go, made = threading.Event(), threading.Event(), forward_only._compile_inference

    def waiting(forward: Any) -> Any:
        inside.set()
        assert go.wait(60)
        return made(forward)

    monkeypatch.setattr(forward_only, "_compile_inference", waiting)
    other = threading.Thread(target=model, args=(X,))
    other.start()
    assert inside.wait(60)
    child = os.fork()
    if child == 0:
        signal.alarm(30)
        forward_only._compile_inference = made
        os._exit(0 if torch.allclose(model(X), expected) else 1)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    go.set()
    other.join(60)
    assert code == 0
    torch.testing.assert_close(model(X), expected)


LEAVING = """
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
    """Workers are forked from a process with running sessions, and use the model themselves."""
    script = tmp_path / "leaving.py"
    script.write_text(LEAVING)
    done = python("-W", "ignore", script)
    assert (done.returncode, done.stderr) == (0, "")
