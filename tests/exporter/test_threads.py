"""Exports in several threads at once, of one model and of several, beside compilations, calls and
files: each is right, and what torch and the models are afterwards is what they were."""

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

from .test_workarounds import restored

EXAMPLE, X = torch.linspace(-1, 1, 20).reshape(5, 4), torch.linspace(-2, 1, 28).reshape(7, 4)
ROWS = ({0: "rows"},)


class Layers(torch.nn.Module):
    """Calls one part several times, so that torch's tracing has names to mix up."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.linear, self.count = torch.nn.Linear(4, 4), count
        self.register_buffer("scale", torch.ones(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for _ in range(self.count):
            x = torch.nn.functional.gelu(self.linear(x)) + x.mean(0, keepdim=True)
        return x * self.scale[0]


@pytest.fixture
def quick_turns() -> Iterator[None]:
    """Threads take turns a hundred times as often as usual."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(before / 100)
    yield
    sys.setswitchinterval(before)


def _held(module: torch.nn.Module) -> Any:
    tensors = [*module.named_parameters(), *module.named_buffers()]
    return set(vars(module)), [(name, id(each)) for name, each in tensors]


@pytest.mark.usefixtures("quick_turns")
@pytest.mark.parametrize("strict", [False, True])
def test_each_is_right_and_nothing_is_left(tmp_path: Path, strict: bool) -> None:
    """Strict exports beside each other alone: torch throws away what is compiled meanwhile, and
    ends the process when another thread calls it."""
    shared, alone = Layers(2).eval(), Layers(3).eval()
    fresh = [Layers(count).eval() for count in (1, 2, 3)]
    # made before: while torch exports, torch.compile returns the model as it is, in all threads
    models = {each: torch.compile(each, backend="ortable", dynamic=False) for each in fresh}
    with torch.no_grad():
        wanted = {each: each(X) for each in (shared, alone, *fresh)}
    program = ortable.export(shared, (EXAMPLE,), dynamic_shapes=ROWS)
    before, state = [_held(shared), _held(alone)], process_state()

    def export(module: Layers, region: Any) -> None:
        for _ in range(3):
            with region():
                made = ortable.export(
                    module, (EXAMPLE,), dynamic_shapes=ROWS,
                    export_options=ExportOptions(strict=strict), validate=True,
                )  # fmt: skip
            torch.testing.assert_close(made(X), wanted[module])

    def compiled() -> None:
        for module, model in models.items():
            result = model(X)
            torch.testing.assert_close(result, wanted[module])
            result.sum().backward()

    def called() -> None:
        for number in range(10):
            torch.testing.assert_close(program(X), wanted[shared])
            path = tmp_path / f"{number % 2}.onnx"
            program.save(path, external_data=True)
            assert onnxruntime.InferenceSession(path).get_inputs()[0].name == "x"

    works: list[Callable[[], None]] = [
        lambda: export(shared, nullcontext),
        lambda: export(shared, bypass_export_some_errors),
        lambda: export(alone, nullcontext),
        lambda: export(alone, bypass_export_some_errors),
        called,
        *([] if strict else [compiled]),
    ]
    in_threads(len(works), lambda number: works[number]())
    assert [_held(shared), _held(alone)] == before
    assert process_state() == state
    assert restored() and not torch.onnx.is_in_onnx_export()


class Pausing(torch.nn.Module):
    """Stops in the middle of its first call until somebody lets it go on."""

    def __init__(self) -> None:
        super().__init__()
        self.inside, self.go = threading.Event(), threading.Event()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.inside.set()
        assert self.go.wait(60)
        return x + 1


def _beside_an_export(work: Callable[[], Any]) -> bool:
    """Whether something ends while a module is exported; errors of both are raised."""
    module, ended = Pausing().eval(), threading.Event()
    seen: list[bool] = []

    def exported() -> None:
        program = ortable.export(module, (EXAMPLE,), export_options=ExportOptions(strict=False))
        assert torch.equal(program(EXAMPLE), EXAMPLE + 1)

    def worked() -> None:
        assert module.inside.wait(60)
        work()
        ended.set()

    def watched() -> None:
        assert module.inside.wait(60)
        seen.append(ended.wait(1.5))
        module.go.set()

    works = (exported, worked, watched)
    in_threads(3, lambda number: works[number]())
    return seen[0]


def _exported_by_a_backend() -> None:
    """The thread has torch's lock of compilations when it asks for a turn."""

    def backend(graph_module: Any, example_inputs: Any) -> Any:
        program = ortable.export(graph_module, tuple(example_inputs))
        return program

    torch._dynamo.reset()
    torch.testing.assert_close(torch.compile(torch.sin, backend=backend)(X), torch.sin(X))


def test_exports_compilations_and_comparisons_wait_for_each_other() -> None:
    module = Layers(1).eval()
    program = ortable.export(module, (EXAMPLE,), dynamic_shapes=ROWS)
    with ortable.observe(module) as seen:
        module(EXAMPLE), module(X)
    for work in (
        lambda: ortable.to_onnx(module, (EXAMPLE,)),
        lambda: program.validate().check(),
        lambda: seen.prove(program),
        _exported_by_a_backend,
    ):
        assert not _beside_an_export(work)


def test_calls_and_files_wait_for_no_export(tmp_path: Path) -> None:
    module = Layers(1).eval()
    program = ortable.export(module, (EXAMPLE,), dynamic_shapes=ROWS)
    compiled = torch.compile(module, backend="ortable")
    compiled(X)

    def work() -> None:
        torch.testing.assert_close(program(X), compiled(X))
        program.save(tmp_path / "m.onnx")

    assert _beside_an_export(work)


def test_regions_that_begin_and_end_in_turn_leave_nothing() -> None:
    """The second begins before the first one ends; sizes of 1 are torch's setting of a thread."""
    first_inside, second_inside, first_done = (threading.Event() for _ in range(3))
    seen: dict[str, bool] = {}

    def regions(number: int) -> None:
        if number == 0:
            with bypass_export_some_errors():
                first_inside.set()
                assert second_inside.wait(60)
            seen["first, afterwards"] = compat.fx_config.backed_size_oblivious
            first_done.set()
            return
        assert first_inside.wait(60)
        with bypass_export_some_errors():
            second_inside.set()
            assert first_done.wait(60)
            seen["second, inside"] = compat.fx_config.backed_size_oblivious
        seen["second, afterwards"] = compat.fx_config.backed_size_oblivious

    in_threads(2, regions)
    assert seen == {"first, afterwards": False, "second, inside": True, "second, afterwards": False}
    assert restored()


def test_two_that_explain_leave_what_dynamo_has_seen() -> None:
    state = compat.dynamo_profile.get_code_state()
    before = dict(state)
    inside, ended = threading.Event(), threading.Event()

    class Waits(torch.nn.Module):
        @torch.compiler.disable
        def wait(self) -> None:
            inside.set()
            ended.wait(1)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.wait()
            return x.sin()

    def explained(number: int) -> None:
        if number == 0:
            ortable.explain(Waits(), X)
            ended.set()
            return
        assert inside.wait(60)
        ortable.explain(Waits(), X)

    state["somebody's"] = before["somebody's"] = object()  # type: ignore[index,assignment]
    try:
        in_threads(2, explained)
        assert dict(state) == before
    finally:
        state.pop("somebody's", None)  # type: ignore[call-overload]


def test_what_a_call_that_raises_has_written_is_put_back() -> None:
    module = torch.nn.BatchNorm1d(4)
    before = {name: value.clone() for name, value in module.state_dict().items()}
    with pytest.raises(ZeroDivisionError), preserve_state(module, (X,)):
        module(X)
        raise ZeroDivisionError
    assert all(torch.equal(value, before[name]) for name, value in module.state_dict().items())


def _exported_in_a_child() -> str:
    """What an export says in a forked process."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            signal.alarm(60)
            program = ortable.export(torch.nn.Tanh(), (X,))
            said = f"equal: {torch.allclose(program(X), X.tanh())}"
        except Exception as error:
            said = f"{type(error).__name__}: {error}"
        os.write(writer, said.encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as stream:
        said = stream.read()
    os.waitpid(child, 0)
    return said


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the platform does not fork")
def test_a_process_that_is_forked_within_an_export_does_not_wait_for_it() -> None:
    module = Pausing()
    options = ExportOptions(strict=False)
    ortable.export(torch.nn.Tanh(), (X,))
    assert _exported_in_a_child() == "equal: True"
    exporting = threading.Thread(
        target=lambda: ortable.export(module, (X,), export_options=options)
    )
    exporting.start()
    assert module.inside.wait(60)
    said = _exported_in_a_child()
    module.go.set()
    exporting.join(60)
    assert said.startswith("ExportError: this process was forked while another thread")
    assert _exported_in_a_child() == "equal: True"
