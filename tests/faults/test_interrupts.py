"""Ctrl-C while a model is compiled, called, trained, refreshed, exported or loaded: the next call
is right, nobody waits for a lock, and weights and files are those of before or after."""

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
from tests.rotation import turn

from .interrupts import drawn, interrupted

COUNT = 6  # interrupts of each kind of work; the sweeps do more
X = torch.linspace(-1, 1, 12).reshape(3, 4)


class Counting(torch.nn.Module):
    """Counts its calls in a buffer, in place."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(4, 5), torch.nn.Tanh())
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls.add_(1)
        return self.layers(x) * self.calls


class Plain(torch.nn.Module):
    """Writes nothing: its forward graph may become one for inference."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(4, 5), torch.nn.Tanh())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x)


def _train(model: Any, module: torch.nn.Module) -> None:
    module.zero_grad()
    model(X).sum().backward()


def _infer(model: Any, module: torch.nn.Module) -> None:
    """Enough calls for weights to become constants, and to be inputs again."""
    with torch.no_grad():
        for _ in range(3):
            model(X)
        module.get_parameter("layers.0.weight").mul_(0.5)
        model(X)


def _forwards(model: Any, module: torch.nn.Module) -> None:
    """Enough calls that nobody differentiates for the graph to become one for inference."""
    for _ in range(6):
        model(X)


def _warm(model: Any, module: torch.nn.Module) -> None:
    """Calls of what is compiled, of each kind."""
    with torch.no_grad():
        model(X)
        module.get_parameter("layers.0.weight").mul_(0.99)
        model(X)
    _train(model, module)


def _refresh(model: Any, module: torch.nn.Module) -> None:
    """A write that nothing counts, told of."""
    with torch.no_grad():
        module.get_parameter("layers.0.weight").data.mul_(0.99)
        ortable.refresh(module)
        model(X)


@dataclass(frozen=True)
class Work:
    """What is interrupted, and what is done before it and is not; with ``anew``, before each
    interrupt the model is compiled again."""

    run: Callable[[Any, torch.nn.Module], None]
    before: Callable[[Any, torch.nn.Module], None] | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    anew: bool = True
    module: type[torch.nn.Module] = Counting


WORKS = {
    "training": Work(_train),
    "inference": Work(_infer),
    "forwards": Work(_forwards, module=Plain),
    "warm calls": Work(_warm, _warm, anew=False),
    "refresh": Work(_refresh, _infer, {"freeze": "trust"}, anew=False),
}


def _expected(module: torch.nn.Module, run: Callable[..., Any]) -> list[torch.Tensor]:
    """Result, gradients and state of one more run."""
    module.zero_grad()
    result = run(X)
    result.sum().backward()
    grads = [each.grad.clone() for each in module.parameters() if each.grad is not None]
    with torch.no_grad():
        return [result.detach(), *grads, run(X), *(b.clone() for b in module.state_dict().values())]


def _after_an_interrupt(seed: int, count: int, work: Work) -> None:
    module = work.module()
    state = {name: value.clone() for name, value in module.state_dict().items()}

    def compiled() -> Any:
        torch._dynamo.reset()
        conversions.clear()
        module.load_state_dict(state)
        model = torch.compile(module, backend="ortable", options=dict(work.options))
        if work.before is not None:
            work.before(model, module)
        return model

    work.run(compiled(), module)  # what is done once in a process is done
    model = compiled()
    lines = interrupted(-1, lambda: work.run(model, module))
    assert len(lines.run) > (1000 if work.anew else 20)
    for at in drawn(lines, count, random.Random(seed)):
        model = compiled() if work.anew else model
        module.load_state_dict(state)
        stopped = interrupted(at, partial(work.run, model, module))
        halfway = {name: value.clone() for name, value in module.state_dict().items()}
        assert float(halfway.get("calls", 0)).is_integer(), stopped.where
        ortable.refresh(module)  # what comes next writes weights as it likes
        got = _expected(module, model)
        module.load_state_dict(halfway)
        wanted = _expected(module, module)
        said = partial("{}: {}".format, stopped.where)
        torch.testing.assert_close(got, wanted, msg=said)


@pytest.mark.parametrize("work", ["training", "inference", "refresh"])
def test_the_call_after_an_interrupt_is_right(work: str) -> None:
    _after_an_interrupt(turn(), COUNT, WORKS[work])


def test_an_interrupt_while_a_forward_graph_becomes_one_for_inference() -> None:
    """At the lines of the change itself, which are few of all that run."""
    module = Plain()
    model = torch.compile(module, backend="ortable")

    def fresh() -> None:
        torch._dynamo.reset()
        conversions.clear()
        for _ in range(3):
            model(X)

    fresh()
    model(X)
    fresh()
    lines = interrupted(-1, lambda: model(X))
    changes = [
        number for number, (file, _) in enumerate(lines.run) if Path(file).name == "forward_only.py"
    ]
    assert len(changes) > 40
    for at in random.Random(turn()).sample(changes, 4):
        fresh()
        stopped = interrupted(at, lambda: model(X))
        if stopped.where is None:  # some runs have fewer lines: as far from the end as it was
            fresh()
            moved = at - len(lines.run) + len(stopped.run)
            stopped = interrupted(moved, lambda: model(X))
        assert stopped.where is not None
        for _ in range(2):
            torch.testing.assert_close(model(X), module(X), msg=str(stopped.where))
        torch.testing.assert_close(_expected(module, model), _expected(module, module))


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_an_interrupt_while_garbage_is_collected() -> None:
    """Python reports what is raised there and goes on, so the work has to end as it would have."""
    module = Plain()
    model = torch.compile(module, backend="ortable")
    _infer(model, module)  # weights are held from here on, and each collection looks at them

    def generators() -> list[int]:
        thresholds = gc.get_threshold()
        gc.set_threshold(1, 1, 1)
        try:
            return [min(x for x in range(k, k + 2)) for k in range(100)]
        finally:
            gc.set_threshold(*thresholds)

    lines = interrupted(-1, generators)
    assert "weights.py" in {Path(file).name for file, _ in lines.run}
    for at in range(min(len(lines.run), 100)):
        found: list[int] = []
        interrupted(at, lambda found=found: found.extend(generators()))
        assert found == list(range(100)), at
    with torch.no_grad():
        torch.testing.assert_close(model(X), module(X))


@pytest.mark.alternates(parts=2)
@pytest.mark.slow
@pytest.mark.parametrize(
    ("work", "count"),
    [("training", 50), ("inference", 50), ("forwards", 50), ("warm calls", 60), ("refresh", 40)],
)
def test_many_interrupts(work: str, count: int) -> None:
    _after_an_interrupt(turn() + 1, count, WORKS[work])


# -- files


def _result(path: Path) -> np.ndarray:
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    (found,) = session.run(None, {"x": X.numpy()})
    return found


def _export_interrupted(folder: Path, count: int) -> None:
    """What is there is the old file or the new one, and the next export works."""
    old, new = torch.nn.Linear(4, 2).eval(), torch.nn.Linear(4, 2).eval()
    path = folder / "m.onnx"
    with torch.no_grad():
        states = [each(X).numpy() for each in (old, new)]

    def save(module: torch.nn.Module) -> None:
        program = ortable.export(module, (X,), input_names=["x"])
        program.validate().check()
        program.save(path, external_data=True)

    save(old)
    lines = interrupted(-1, lambda: save(new))
    for at in drawn(lines, count, random.Random(turn())):
        save(old)
        stopped = interrupted(at, lambda: save(new))
        found = _result(path)
        assert any(np.allclose(found, each, atol=1e-6) for each in states), stopped.where
        save(new)
        np.testing.assert_allclose(_result(path), states[1], atol=1e-6)


def test_the_export_after_an_interrupt_works(tmp_path: Path) -> None:
    _export_interrupted(tmp_path, 2)


@pytest.mark.slow
def test_many_interrupted_exports(tmp_path: Path) -> None:
    _export_interrupted(tmp_path, 30)


@pytest.mark.slow
def test_a_language_model_that_is_loaded(tmp_path: Path) -> None:
    """The same object goes on after an interrupt, sessions or not."""
    config = LlamaConfig(
        vocab_size=32, hidden_size=16, intermediate_size=16, num_hidden_layers=1,
        num_attention_heads=2, num_key_value_heads=1, max_position_embeddings=32,
    )  # fmt: skip
    model = LlamaForCausalLM(config).eval()
    ortable.export_language_model(model, tmp_path / "lm")
    prompt = torch.tensor([[1, 5, 7]])

    def load_and_generate(kept: list[Any]) -> None:
        kept.append(ortable.OnnxLanguageModel.load(tmp_path / "lm"))
        kept.append(kept[0].generate(prompt, max_new_tokens=3))

    whole: list[Any] = []
    lines = interrupted(-1, lambda: load_and_generate(whole))
    with torch.no_grad():
        eager = model.generate(prompt, max_new_tokens=3, do_sample=False)
    assert whole[1].tolist() == eager.tolist()
    for at in drawn(lines, 20, random.Random(turn())):
        kept: list[Any] = []
        stopped = interrupted(at, partial(load_and_generate, kept))
        loaded = kept[0] if kept else ortable.OnnxLanguageModel.load(tmp_path / "lm")
        again = loaded.generate(prompt, max_new_tokens=3)
        assert again.tolist() == eager.tolist(), stopped.where
