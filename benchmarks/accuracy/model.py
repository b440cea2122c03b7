"""A small Llama-like model of bytes, trained on the sources of the standard library.

Random weights have no outliers and no structure, so they say little about quantization; this model
is trained for a few minutes on text that each installation of Python has.
"""

from __future__ import annotations

import sysconfig
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

LENGTH = 128  # bytes of a text
_BATCH = 8
_TEST_SHARE = 20  # every 20th file is for tests
_RATE = 2e-3


@dataclass(frozen=True)
class Texts:
    """Bytes to train with, and bytes of other files to test with."""

    train: torch.Tensor
    test: torch.Tensor


def read_texts() -> Texts:
    """Read the modules of the standard library, as bytes."""
    files = sorted(Path(sysconfig.get_path("stdlib")).glob("*.py"))
    parts = [np.frombuffer(path.read_bytes(), np.uint8) for path in files]
    test, train = parts[::_TEST_SHARE], [p for n, p in enumerate(parts) if n % _TEST_SHARE]
    return Texts(*(torch.from_numpy(np.concatenate(part)).long() for part in (train, test)))


def cut_texts(content: torch.Tensor, count: int, seed: int = 0) -> torch.Tensor:
    """Return ``count`` texts [count, LENGTH] from random places of the content."""
    generator = torch.Generator().manual_seed(seed)
    starts = torch.randint(len(content) - LENGTH, (count, 1), generator=generator)
    return content[starts + torch.arange(LENGTH)]


def build_model(layers: int) -> Any:
    """Build a Llama-like model of bytes with random weights."""
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=256, hidden_size=256, intermediate_size=768, num_hidden_layers=layers,
        num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=LENGTH,
        use_cache=False,
    )  # fmt: skip
    return LlamaForCausalLM(config)


def train_model(layers: int, steps: int, texts: Texts, path: Path) -> Any:
    """Train a model, or load it from an earlier run with the same sizes and steps."""
    model = build_model(layers)
    if path.exists():
        model.load_state_dict(torch.load(path))
        return model.eval()
    optimizer = torch.optim.AdamW(model.parameters(), _RATE, betas=(0.9, 0.95), weight_decay=0.1)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, _RATE, total_steps=steps)
    start = time.perf_counter()
    for step in range(steps):
        ids = cut_texts(texts.train, _BATCH, step + 1)
        loss = model(input_ids=ids, labels=ids).loss
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        if step % 50 == 0:
            print(f"step {step}: {loss:.3f}, {time.perf_counter() - start:.0f} s", flush=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    torch.save(model.state_dict(), path)
    return model.eval()
