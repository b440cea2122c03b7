"""After Ctrl-C during compilation, calls, training, export or loading the next call is right."""

from __future__ import annotations

import gc
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

import ortable
from ortable.backend.cache.memory import conversions
from tests.rotation import rotation_seed

from .interrupts import draw_indices, run_with_interrupt

pytestmark = pytest.mark.alternates(parts=3)

INTERRUPTS = 6  # interrupts of each kind of work; tests marked slow do more
X = torch.linspace(-1, 1, 12).reshape(3, 4)


class CountingModel(torch.nn.Module):
    """A model that counts its calls in a buffer, in place."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(4, 5), torch.nn.Tanh())
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls.add_(1)
        return self.layers(x) * self.calls


class PlainModel(torch.nn.Module):
    """A model without writes, whose forward graph may become an inference graph."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(4, 5), torch.nn.Tanh())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x)


def _train(model: Any, module: torch.nn.Module) -> None:
    module.zero_grad()
    model(X).sum().backward()


def _infer(model: Any, module: torch.nn.Module) -> None:
    """Call the model until weights are frozen, then until they are inputs again."""
    with torch.no_grad():
        for _ in range(3):
            model(X)
        module.get_parameter("layers.0.weight").mul_(0.5)
        model(X)


def _run_forwards(model: Any, module: torch.nn.Module) -> None:
    """Call the model without a backward until its graph becomes an inference graph."""
    for _ in range(6):
        model(X)


def _run_warm_calls(model: Any, module: torch.nn.Module) -> None:
    """Make each kind of call of a compiled model."""
    with torch.no_grad():
        model(X)
        module.get_parameter("layers.0.weight").mul_(0.99)
        model(X)
    _train(model, module)


def _refresh(model: Any, module: torch.nn.Module) -> None:
    """Write a weight without a version change, refresh the module, and call the model."""
    with torch.no_grad():
        module.get_parameter("layers.0.weight").data.mul_(0.99)
        ortable.refresh(module)
        model(X)


@dataclass(frozen=True)
class Work:
    """A function to interrupt, its setup, and whether to recompile before each interrupt."""

    run: Callable[[Any, torch.nn.Module], None]
    setup: Callable[[Any, torch.nn.Module], None] | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    recompile: bool = True
    module: type[torch.nn.Module] = CountingModel


WORKS = {
    "training": Work(_train),
    "inference": Work(_infer),
    "forwards": Work(_run_forwards, module=PlainModel),
    "warm calls": Work(_run_warm_calls, _run_warm_calls, recompile=False),
    "refresh": Work(_refresh, _infer, {"freeze": "trust"}, recompile=False),
}


def _run_once(module: torch.nn.Module, run: Callable[..., Any]) -> list[torch.Tensor]:
    """Return result, gradients and state of one more run."""
    module.zero_grad()
    result = run(X)
    result.sum().backward()
    grads = [weight.grad.clone() for weight in module.parameters() if weight.grad is not None]
    with torch.no_grad():
        return [result.detach(), *grads, run(X), *(t.clone() for t in module.state_dict().values())]


def _check_call_after_interrupt(seed: int, count: int, work: Work) -> None:
    module = work.module()
    state = {name: value.clone() for name, value in module.state_dict().items()}

    def compile_module() -> Any:
        torch._dynamo.reset()
        conversions.clear()
        module.load_state_dict(state)
        model = torch.compile(module, backend="ortable", options=dict(work.options))
        if work.setup is not None:
            work.setup(model, module)
        return model

    work.run(compile_module(), module)  # warms up caches of this process
    model = compile_module()
    lines = run_with_interrupt(-1, lambda: work.run(model, module))
    assert len(lines.executed) > (1000 if work.recompile else 20)
    for index in draw_indices(lines, count, random.Random(seed)):
        model = compile_module() if work.recompile else model
        module.load_state_dict(state)
        trace = run_with_interrupt(index, partial(work.run, model, module))
        state_after = {name: value.clone() for name, value in module.state_dict().items()}
        assert float(state_after.get("calls", 0)).is_integer(), trace.where
        ortable.refresh(module)  # `load_state_dict` below writes weights
        result = _run_once(module, model)
        module.load_state_dict(state_after)
        expected = _run_once(module, module)
        message = partial("{}: {}".format, trace.where)
        torch.testing.assert_close(result, expected, msg=message)


@pytest.mark.parametrize("work", ["training", "inference", "refresh"])
def test_the_call_after_an_interrupt_is_right(work: str) -> None:
    _check_call_after_interrupt(rotation_seed(), INTERRUPTS, WORKS[work])


def test_an_interrupt_while_a_forward_graph_becomes_one_for_inference() -> None:
    """The interrupts are at lines of forward_only.py."""
    module = PlainModel()
    model = torch.compile(module, backend="ortable")

    def recompile() -> None:
        torch._dynamo.reset()
        conversions.clear()
        for _ in range(3):
            model(X)

    recompile()
    model(X)
    recompile()
    lines = run_with_interrupt(-1, lambda: model(X))
    indices = [
        i for i, (file, _) in enumerate(lines.executed) if Path(file).name == "forward_only.py"
    ]
    assert len(indices) > 40
    for index in random.Random(rotation_seed()).sample(indices, 4):
        recompile()
        trace = run_with_interrupt(index, lambda: model(X))
        if trace.where is None:  # fewer lines ran: use the same distance from the end
            recompile()
            shifted_index = index - len(lines.executed) + len(trace.executed)
            trace = run_with_interrupt(shifted_index, lambda: model(X))
        assert trace.where is not None
        for _ in range(2):
            torch.testing.assert_close(model(X), module(X), msg=str(trace.where))
        torch.testing.assert_close(_run_once(module, model), _run_once(module, module))


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_an_interrupt_while_garbage_is_collected() -> None:
    """Python reports an error in garbage collection and continues, so the result must be right."""
    module = PlainModel()
    model = torch.compile(module, backend="ortable")
    _infer(model, module)  # frozen weights are checked at each collection from here on

    def run_generators() -> list[int]:
        thresholds = gc.get_threshold()
        gc.set_threshold(1, 1, 1)
        try:
            return [min(x for x in range(start, start + 2)) for start in range(100)]
        finally:
            gc.set_threshold(*thresholds)

    lines = run_with_interrupt(-1, run_generators)
    assert "weights.py" in {Path(file).name for file, _ in lines.executed}
    for index in range(min(len(lines.executed), 100)):
        result: list[int] = []
        run_with_interrupt(index, lambda result=result: result.extend(run_generators()))
        assert result == list(range(100)), index
    with torch.no_grad():
        torch.testing.assert_close(model(X), module(X))


@pytest.mark.alternates(parts=2)
@pytest.mark.slow
@pytest.mark.parametrize(
    ("work", "count"),
    [("training", 50), ("inference", 50), ("forwards", 50), ("warm calls", 60), ("refresh", 40)],
)
def test_many_interrupts(work: str, count: int) -> None:
    _check_call_after_interrupt(rotation_seed() + 1, count, WORKS[work])


# -- files


def _run_file(path: Path) -> np.ndarray:
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    (result,) = session.run(None, {"x": X.numpy()})
    return result


def _check_interrupted_exports(folder: Path, count: int) -> None:
    """Interrupt exports; each leaves the old file or the new one, and the next export works."""
    old, new = torch.nn.Linear(4, 2).eval(), torch.nn.Linear(4, 2).eval()
    path = folder / "m.onnx"
    with torch.no_grad():
        expected_results = [module(X).numpy() for module in (old, new)]

    def save(module: torch.nn.Module) -> None:
        program = ortable.export(module, (X,), input_names=["x"])
        program.validate().check()
        program.save(path, external_data=True)

    save(old)
    lines = run_with_interrupt(-1, lambda: save(new))
    for index in draw_indices(lines, count, random.Random(rotation_seed())):
        save(old)
        trace = run_with_interrupt(index, lambda: save(new))
        result = _run_file(path)
        assert any(np.allclose(result, y, atol=1e-6) for y in expected_results), trace.where
        save(new)
        np.testing.assert_allclose(_run_file(path), expected_results[1], atol=1e-6)


def test_the_export_after_an_interrupt_works(tmp_path: Path) -> None:
    _check_interrupted_exports(tmp_path, 2)


@pytest.mark.slow
def test_many_interrupted_exports(tmp_path: Path) -> None:
    _check_interrupted_exports(tmp_path, 30)


@pytest.mark.slow
def test_a_language_model_that_is_loaded(tmp_path: Path) -> None:
    """The loaded object works after an interrupt, whether it has sessions or not."""
    config = LlamaConfig(
        vocab_size=32, hidden_size=16, intermediate_size=16, num_hidden_layers=1,
        num_attention_heads=2, num_key_value_heads=1, max_position_embeddings=32,
    )  # fmt: skip
    model = LlamaForCausalLM(config).eval()
    ortable.export_language_model(model, tmp_path / "lm")
    prompt = torch.tensor([[1, 5, 7]])

    def load_and_generate(loaded: list[Any]) -> None:
        loaded.append(ortable.OnnxLanguageModel.load(tmp_path / "lm"))
        loaded.append(loaded[0].generate(prompt, max_new_tokens=3))

    uninterrupted: list[Any] = []
    lines = run_with_interrupt(-1, lambda: load_and_generate(uninterrupted))
    with torch.no_grad():
        eager = model.generate(prompt, max_new_tokens=3, do_sample=False)
    assert uninterrupted[1].tolist() == eager.tolist()
    for index in draw_indices(lines, 20, random.Random(rotation_seed())):
        loaded: list[Any] = []
        trace = run_with_interrupt(index, partial(load_and_generate, loaded))
        language_model = loaded[0] if loaded else ortable.OnnxLanguageModel.load(tmp_path / "lm")
        tokens = language_model.generate(prompt, max_new_tokens=3)
        assert tokens.tolist() == eager.tolist(), trace.where
