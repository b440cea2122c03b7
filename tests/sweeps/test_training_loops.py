"""Losses of third-party training loops with ortable equal those in eager."""

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

TOLERANCE = {"rtol": 1e-4, "atol": 1e-6}
BFLOAT16_TOLERANCE = {"rtol": 2e-3, "atol": 1e-4}  # bfloat16 results are rounded at other points
BATCHES = torch.linspace(-1, 1, 48).reshape(12, 4)


@pytest.fixture(autouse=True)
def loops():
    """Register the backend names, and reset the compiler and the settings of earlier loops."""
    backends = list_backends(exclude_tags=())
    for name, backend in (("ortable", ortable), ("onnxrt", onnxrt)):
        if name not in backends:
            register_backend(backend, name=name)
    torch._dynamo.reset()
    AcceleratorState._reset_state(True)
    yield
    AcceleratorState._reset_state(True)
    for name in [key for key in os.environ if key.startswith("ACCELERATE_DYNAMO")]:
        del os.environ[name]


def record_compilations(monkeypatch):
    """Return a list to which each graph that ortable compiles appends an entry."""
    from ortable.backend.aot import build

    compiled = []
    original = build.log_compiled

    def record_compiled(*args):
        compiled.append(args)
        original(*args)

    monkeypatch.setattr(build, "log_compiled", record_compiled)
    return compiled


def fine_tune(folder, **settings):
    """Train a small Llama for three steps with transformers' Trainer and return the losses."""
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
    ("settings", "tolerances"),
    [
        ({}, TOLERANCE),
        ({"bf16": True}, BFLOAT16_TOLERANCE),
        ({"gradient_checkpointing": True, "gradient_accumulation_steps": 2}, TOLERANCE),
    ],
    ids=["float32", "bfloat16", "checkpoints_and_accumulation"],
)
def test_the_trainer_of_transformers(settings, tolerances, tmp_path, monkeypatch):
    compiled = record_compilations(monkeypatch)
    expected = fine_tune(tmp_path, **settings)
    assert not compiled
    backend_settings = {"torch_compile": True, "torch_compile_backend": "onnxrt"}
    losses = fine_tune(tmp_path, **settings, **backend_settings)
    assert len(losses) == 3 and len(compiled) >= 2
    torch.testing.assert_close(losses, expected, **tolerances)


def make_network():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))


def train_with_accelerator(**settings):
    """Train with a loop around an Accelerator and return the losses."""
    torch._dynamo.reset()
    AcceleratorState._reset_state(True)
    accelerator = accelerate.Accelerator(cpu=True, **settings)
    model = make_network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = torch.utils.data.DataLoader(BATCHES, batch_size=4)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    losses = []
    for batch in loader:
        with accelerator.accumulate(model):
            loss = model(batch).pow(2).mean()
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
            losses.append(loss.item())
    return losses


@pytest.mark.parametrize(
    "make_backend_settings",
    [
        lambda: {"dynamo_backend": "onnxrt"},
        lambda: {"dynamo_plugin": TorchDynamoPlugin(backend="onnxrt", options={"freeze": "off"})},
    ],
    ids=["name", "plugin"],
)
@pytest.mark.parametrize(
    "settings", [{}, {"mixed_precision": "bf16"}, {"gradient_accumulation_steps": 2}], ids=str
)
def test_accelerate(make_backend_settings, settings, monkeypatch):
    compiled = record_compilations(monkeypatch)
    expected = train_with_accelerator(**settings)
    assert not compiled
    losses = train_with_accelerator(**settings, **make_backend_settings())
    assert len(compiled) == 2
    torch.testing.assert_close(
        losses, expected, **(BFLOAT16_TOLERANCE if "mixed_precision" in settings else TOLERANCE)
    )


class Regression(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.network = make_network()

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
    """Train a module and return the metrics it logs and the names of its weights."""
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    trainer = lightning.Trainer(
        accelerator="cpu", max_epochs=2, logger=False, enable_checkpointing=False,
        enable_progress_bar=False, enable_model_summary=False,
    )  # fmt: skip
    loader = torch.utils.data.DataLoader(BATCHES, batch_size=4)
    trainer.fit(module, loader, loader)
    return trainer.callback_metrics, [*getattr(module, "_orig_mod", module).state_dict()]


@pytest.mark.filterwarnings("ignore")  # Lightning warns about the workers of loaders
@pytest.mark.parametrize("inside", [False, True])
def test_lightning(inside, monkeypatch):
    compiled = record_compilations(monkeypatch)
    expected, names = fit(Regression())
    module = Regression()
    if inside:
        module.network = torch.compile(module.network, backend="ortable")
    else:
        module.compile(backend="ortable")
    metrics, compiled_names = fit(module)
    assert len(compiled) >= 3 and set(metrics) == {"loss", "validation loss"}
    assert [name.replace("_orig_mod.", "") for name in compiled_names] == names
    assert inside or compiled_names == names
    torch.testing.assert_close(metrics, expected, **TOLERANCE)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("backend", ["eager", "ortable"])
def test_lightning_logs_in_no_compiled_step_of_any_backend(backend):
    """When torch or Lightning fixes this, update docs/training.md."""
    with pytest.raises(InternalTorchDynamoError):
        fit(torch.compile(Regression(), backend=backend))
