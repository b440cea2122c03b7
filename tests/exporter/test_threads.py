"""Concurrent exports, compilations, calls and saves; afterwards torch's state is restored."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import onnxruntime
import pytest
import torch

import ortable
from ortable import ExportOptions, bypass_export_some_errors
from ortable.compat import torch as compat
from ortable.exporter.observation.proof import preserve_state
from tests.backend.threads import in_threads
from tests.process_state import process_state

from .test_workarounds import is_torch_restored

pytestmark = pytest.mark.alternates(parts=3)

EXAMPLE, X = torch.linspace(-1, 1, 20).reshape(5, 4), torch.linspace(-2, 1, 28).reshape(7, 4)
ROWS = ({0: "rows"},)


class Layers(torch.nn.Module):
    """Calls one submodule several times, so that tracing has names that can clash."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.linear, self.count = torch.nn.Linear(4, 4), count
        self.register_buffer("scale", torch.ones(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for _ in range(self.count):
            x = torch.nn.functional.gelu(self.linear(x)) + x.mean(0, keepdim=True)
        return x * self.scale[0]


@pytest.fixture
def short_switch_interval() -> Iterator[None]:
    """Reduce the interpreter's thread switch interval to a hundredth."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(interval / 100)
    yield
    sys.setswitchinterval(interval)


def _get_identity(module: torch.nn.Module) -> Any:
    tensors = [*module.named_parameters(), *module.named_buffers()]
    return set(vars(module)), [(name, id(tensor)) for name, tensor in tensors]


@pytest.mark.usefixtures("short_switch_interval")
@pytest.mark.parametrize("strict", [False, True])
def test_each_is_right_and_nothing_is_left(tmp_path: Path, strict: bool) -> None:
    """In strict mode no thread calls compiled models: torch frees them, and a call crashes."""
    shared, separate = Layers(2).eval(), Layers(3).eval()
    fresh = [Layers(count).eval() for count in (1, 2, 3)]
    # compiled first: during an export, torch.compile returns the model unchanged in all threads
    models = {net: torch.compile(net, backend="ortable", dynamic=False) for net in fresh}
    with torch.no_grad():
        expected = {net: net(X) for net in (shared, separate, *fresh)}
    program = ortable.export(shared, (EXAMPLE,), dynamic_shapes=ROWS)
    before, state = [_get_identity(shared), _get_identity(separate)], process_state()

    def export_repeatedly(module: Layers, region: Any) -> None:
        for _ in range(3):
            with region():
                exported = ortable.export(
                    module, (EXAMPLE,), dynamic_shapes=ROWS,
                    export_options=ExportOptions(strict=strict), validate=True,
                )  # fmt: skip
            torch.testing.assert_close(exported(X), expected[module])

    def call_compiled() -> None:
        for module, model in models.items():
            result = model(X)
            torch.testing.assert_close(result, expected[module])
            result.sum().backward()

    def call_program() -> None:
        for number in range(10):
            torch.testing.assert_close(program(X), expected[shared])
            path = tmp_path / f"{number % 2}.onnx"
            program.save(path, external_data=True)
            assert onnxruntime.InferenceSession(path).get_inputs()[0].name == "x"

    tasks: list[Callable[[], None]] = [
        lambda: export_repeatedly(shared, nullcontext),
        lambda: export_repeatedly(shared, bypass_export_some_errors),
        lambda: export_repeatedly(separate, nullcontext),
        lambda: export_repeatedly(separate, bypass_export_some_errors),
        call_program,
        *([] if strict else [call_compiled]),
    ]
    in_threads(len(tasks), lambda number: tasks[number]())
    assert [_get_identity(shared), _get_identity(separate)] == before
    assert process_state() == state
    assert is_torch_restored() and not torch.onnx.is_in_onnx_export()


class Blocking(torch.nn.Module):
    """Blocks in forward until its event ``go`` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.inside, self.go = threading.Event(), threading.Event()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.inside.set()
        assert self.go.wait(60)
        return x + 1


def _ends_during_export(work: Callable[[], Any]) -> bool:
    """Return whether ``work`` ends during an export; errors of both threads are raised."""
    module, work_ended = Blocking().eval(), threading.Event()
    results: list[bool] = []

    def run_export() -> None:
        program = ortable.export(module, (EXAMPLE,), export_options=ExportOptions(strict=False))
        assert torch.equal(program(EXAMPLE), EXAMPLE + 1)

    def run_work() -> None:
        assert module.inside.wait(60)
        work()
        work_ended.set()

    def watch() -> None:
        assert module.inside.wait(60)
        results.append(work_ended.wait(1.5))
        module.go.set()

    tasks = (run_export, run_work, watch)
    in_threads(3, lambda number: tasks[number]())
    return results[0]


def _export_in_backend() -> None:
    """Export while the thread holds torch's compilation lock."""

    def backend(graph_module: Any, example_inputs: Any) -> Any:
        program = ortable.export(graph_module, tuple(example_inputs))
        return program

    torch._dynamo.reset()
    torch.testing.assert_close(torch.compile(torch.sin, backend=backend)(X), torch.sin(X))


def test_exports_compilations_and_comparisons_wait_for_each_other() -> None:
    module = Layers(1).eval()
    program = ortable.export(module, (EXAMPLE,), dynamic_shapes=ROWS)
    with ortable.observe(module) as observation:
        module(EXAMPLE), module(X)
    for work in (
        lambda: ortable.to_onnx(module, (EXAMPLE,)),
        lambda: program.validate().check(),
        lambda: observation.prove(program),
        _export_in_backend,
    ):
        assert not _ends_during_export(work)


def test_calls_and_files_wait_for_no_export(tmp_path: Path) -> None:
    module = Layers(1).eval()
    program = ortable.export(module, (EXAMPLE,), dynamic_shapes=ROWS)
    compiled = torch.compile(module, backend="ortable")
    compiled(X)

    def work() -> None:
        torch.testing.assert_close(program(X), compiled(X))
        program.save(tmp_path / "m.onnx")

    assert _ends_during_export(work)


def test_regions_that_begin_and_end_in_turn_leave_nothing() -> None:
    """The regions overlap; torch's setting for sizes of 1 is thread-local."""
    first_inside, second_inside, first_done = (threading.Event() for _ in range(3))
    settings: dict[str, bool] = {}

    def enter_region(number: int) -> None:
        if number == 0:
            with bypass_export_some_errors():
                first_inside.set()
                assert second_inside.wait(60)
            settings["first, afterwards"] = compat.fx_config.backed_size_oblivious
            first_done.set()
            return
        assert first_inside.wait(60)
        with bypass_export_some_errors():
            second_inside.set()
            assert first_done.wait(60)
            settings["second, inside"] = compat.fx_config.backed_size_oblivious
        settings["second, afterwards"] = compat.fx_config.backed_size_oblivious

    in_threads(2, enter_region)
    assert settings == {
        "first, afterwards": False, "second, inside": True, "second, afterwards": False
    }  # fmt: skip
    assert is_torch_restored()


def test_two_that_explain_leave_what_dynamo_has_seen() -> None:
    state = compat.dynamo_profile.get_code_state()
    before = dict(state)
    inside, ended = threading.Event(), threading.Event()

    class WaitsInForward(torch.nn.Module):
        @torch.compiler.disable
        def wait(self) -> None:
            inside.set()
            ended.wait(1)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.wait()
            return x.sin()

    def explain_in_turn(number: int) -> None:
        if number == 0:
            ortable.explain(WaitsInForward(), X)
            ended.set()
            return
        assert inside.wait(60)
        ortable.explain(WaitsInForward(), X)

    state["other_entry"] = before["other_entry"] = object()  # type: ignore[index,assignment]
    try:
        in_threads(2, explain_in_turn)
        assert dict(state) == before
    finally:
        state.pop("other_entry", None)  # type: ignore[call-overload]


def test_what_a_call_that_raises_has_written_is_put_back() -> None:
    module = torch.nn.BatchNorm1d(4)
    before = {name: value.clone() for name, value in module.state_dict().items()}
    with pytest.raises(ZeroDivisionError), preserve_state(module, (X,)):
        module(X)
        raise ZeroDivisionError
    assert all(torch.equal(value, before[name]) for name, value in module.state_dict().items())


def _export_in_child() -> str:
    """Return the outcome of an export in a forked process as text."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            signal.alarm(60)
            program = ortable.export(torch.nn.Tanh(), (X,))
            outcome = f"equal: {torch.allclose(program(X), X.tanh())}"
        except Exception as error:
            outcome = f"{type(error).__name__}: {error}"
        os.write(writer, outcome.encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as stream:
        outcome = stream.read()
    os.waitpid(child, 0)
    return outcome


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the platform does not fork")
def test_a_process_that_is_forked_within_an_export_does_not_wait_for_it() -> None:
    module = Blocking()
    options = ExportOptions(strict=False)
    ortable.export(torch.nn.Tanh(), (X,))
    assert _export_in_child() == "equal: True"
    export_thread = threading.Thread(
        target=lambda: ortable.export(module, (X,), export_options=options)
    )
    export_thread.start()
    assert module.inside.wait(60)
    outcome = _export_in_child()
    module.go.set()
    export_thread.join(60)
    assert outcome.startswith("ExportError: this process was forked while another thread")
    assert _export_in_child() == "equal: True"
