"""Training loops that others wrote, which name the backend or are given a compiled model: losses
equal those of the same loop in eager."""

from __future__ import annotations

import logging
import os

import accelerate
import lightning
import pytest
import torch
import transformers
from accelerate.state import AcceleratorState
from accelerate.utils import TorchDynamoPlugin
from torch._dynamo import list_backends, register_backend
from torch._dynamo.exc import InternalTorchDynamoError

from ortable.backend.aot.entry import onnxrt, ortable

LIKE = {"rtol": 1e-4, "atol": 1e-6}
ROUGH = {"rtol": 2e-3, "atol": 1e-4}  # bfloat16 rounds other intermediate results
BATCHES = torch.linspace(-1, 1, 48).reshape(12, 4)


@pytest.fixture(autouse=True)
def loops():
    """The names, a fresh compiler, and none of the settings that one loop leaves to the next."""
    known = list_backends(exclude_tags=())
    for name, backend in (("ortable", ortable), ("onnxrt", onnxrt)):
        if name not in known:
            register_backend(backend, name=name)
    torch._dynamo.reset()
    AcceleratorState._reset_state(True)
    yield
    AcceleratorState._reset_state(True)
    for name in [each for each in os.environ if each.startswith("ACCELERATE_DYNAMO")]:
        del os.environ[name]


def is_ours(monkeypatch):
    """A list that gains an entry for each graph that ortable compiles."""
    from ortable.backend.aot import build

    compiled = []
    tell = build.log_compiled

    def noted(*args):
        compiled.append(args)
        tell(*args)

    monkeypatch.setattr(build, "log_compiled", noted)
    return compiled


def fine_tune(folder, **settings):
    """Losses of three steps of transformers' Trainer over a small Llama."""
    torch._dynamo.reset()
    AcceleratorState._reset_state(True)
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=32, hidden_size=16, intermediate_size=32, num_hidden_layers=1,
        num_attention_heads=2, num_key_value_heads=2, max_position_embeddings=32,
    )  # fmt: skip
    tokens = torch.randint(0, 32, (12, 6))
    arguments = transformers.TrainingArguments(
        output_dir=folder, max_steps=3, per_device_train_batch_size=2, learning_rate=1e-2,
        logging_steps=1, report_to=[], save_strategy="no", use_cpu=True, disable_tqdm=True,
        **settings,
    )  # fmt: skip
    trainer = transformers.Trainer(
        transformers.LlamaForCausalLM(config),
        arguments,
        train_dataset=[{"input_ids": row, "labels": row} for row in tokens],
    )
    trainer.remove_callback(transformers.PrinterCallback)
    trainer.train()
    return [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]


@pytest.mark.parametrize(
    ("settings", "like"),
    [
        ({}, LIKE),
        ({"bf16": True}, ROUGH),
        ({"gradient_checkpointing": True, "gradient_accumulation_steps": 2}, LIKE),
    ],
    ids=["float32", "bfloat16", "checkpoints_and_accumulation"],
)
def test_the_trainer_of_transformers(settings, like, tmp_path, monkeypatch):
    compiled = is_ours(monkeypatch)
    expected = fine_tune(tmp_path, **settings)
    assert not compiled
    named = {"torch_compile": True, "torch_compile_backend": "onnxrt"}
    losses = fine_tune(tmp_path, **settings, **named)
    assert len(losses) == 3 and len(compiled) >= 2
    torch.testing.assert_close(losses, expected, **like)


def network():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))


def accelerated(**settings):
    """Losses of a loop around an Accelerator."""
    torch._dynamo.reset()
    AcceleratorState._reset_state(True)
    run = accelerate.Accelerator(cpu=True, **settings)
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = torch.utils.data.DataLoader(BATCHES, batch_size=4)
    model, optimizer, loader = run.prepare(model, optimizer, loader)
    losses = []
    for batch in loader:
        with run.accumulate(model):
            loss = model(batch).pow(2).mean()
            run.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
            losses.append(loss.item())
    return losses


@pytest.mark.parametrize(
    "named",
    [
        lambda: {"dynamo_backend": "onnxrt"},
        lambda: {"dynamo_plugin": TorchDynamoPlugin(backend="onnxrt", options={"freeze": "off"})},
    ],
    ids=["name", "plugin"],
)
@pytest.mark.parametrize(
    "settings", [{}, {"mixed_precision": "bf16"}, {"gradient_accumulation_steps": 2}], ids=str
)
def test_accelerate(named, settings, monkeypatch):
    compiled = is_ours(monkeypatch)
    expected = accelerated(**settings)
    assert not compiled
    losses = accelerated(**settings, **named())
    assert len(compiled) == 2
    torch.testing.assert_close(
        losses, expected, **(ROUGH if "mixed_precision" in settings else LIKE)
    )


class Fitted(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.network = network()

    def forward(self, batch):
        return self.network(batch)

    def training_step(self, batch, index):
        loss = self(batch).pow(2).mean()
        self.log("loss", loss, prog_bar=True)
        return loss

    def validation_step(self, batch, index):
        self.log("validation loss", self(batch).abs().mean())

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


def fit(module):
    """The metrics that a module logs in a training, and the names of its weights."""
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    trainer = lightning.Trainer(
        accelerator="cpu", max_epochs=2, logger=False, enable_checkpointing=False,
        enable_progress_bar=False, enable_model_summary=False,
    )  # fmt: skip
    loader = torch.utils.data.DataLoader(BATCHES, batch_size=4)
    trainer.fit(module, loader, loader)
    return trainer.callback_metrics, [*getattr(module, "_orig_mod", module).state_dict()]


@pytest.mark.filterwarnings("ignore")  # of Lightning, about loaders and their workers
@pytest.mark.parametrize("inside", [False, True])
def test_lightning(inside, monkeypatch):
    compiled = is_ours(monkeypatch)
    expected, names = fit(Fitted())
    module = Fitted()
    if inside:
        module.network = torch.compile(module.network, backend="ortable")
    else:
        module.compile(backend="ortable")
    metrics, ours = fit(module)
    assert len(compiled) >= 3 and set(metrics) == {"loss", "validation loss"}
    assert [each.replace("_orig_mod.", "") for each in ours] == names
    assert inside or ours == names
    torch.testing.assert_close(metrics, expected, **LIKE)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("backend", ["eager", "ortable"])
def test_lightning_logs_in_no_compiled_step_of_any_backend(backend):
    """Once torch or Lightning can, docs/training.md may say so."""
    with pytest.raises(InternalTorchDynamoError):
        fit(torch.compile(Fitted(), backend=backend))
