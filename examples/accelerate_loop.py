"""Run the model of an accelerate training loop in ONNX Runtime.

    python examples/accelerate_loop.py

You learn the one argument, ``Accelerator(dynamo_backend="onnxrt")``, and that the rest of the loop
(prepare, accumulate, backward) stays the same. Gradients are accumulated over two batches, and the
losses are compared with those of the loop without the argument.

Data is generated. Exits with status 1 if losses differ, or do not fall.
"""

from __future__ import annotations

import sys

import torch
from accelerate import Accelerator
from accelerate.state import AcceleratorState
from torch import nn
from torch._dynamo.utils import counters
from torch.utils.data import DataLoader, TensorDataset

EPOCHS = 5


def network() -> nn.Module:
    """Make a network of two layers; the random weights are the same each time."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 1))


def data() -> TensorDataset:
    """Make points, and the values to learn."""
    x = torch.randn(64, 8, generator=torch.Generator().manual_seed(1))
    return TensorDataset(x, torch.sin(x).sum(1, keepdim=True))


def losses(backend: str) -> list[float]:
    """Train, and return the mean loss of each epoch."""
    AcceleratorState._reset_state(
        True
    )  # only because this script makes two accelerators in one process
    accelerator = Accelerator(cpu=True, dynamo_backend=backend, gradient_accumulation_steps=2)
    model = network()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.02)
    model, optimizer, loader = accelerator.prepare(model, optimizer, DataLoader(data(), 16))
    means = []
    for _ in range(EPOCHS):
        total = 0.0
        for x, y in loader:
            with accelerator.accumulate(model):
                loss = nn.functional.mse_loss(model(x), y)
                accelerator.backward(loss)
                optimizer.step()
                optimizer.zero_grad()
            total += loss.item()
        means.append(total / len(loader))
    return means


def main() -> int:
    """Run both loops; return 0 if their losses agree and fall."""
    counters.clear()
    eager, compiled = losses("no"), losses("onnxrt")
    print("epoch     eager   compiled")
    for epoch, (actual, expected) in enumerate(zip(compiled, eager, strict=True), 1):
        print(f"{epoch:5} {expected:9.5f} {actual:10.5f}")
    largest = max(abs(actual - expected) for actual, expected in zip(compiled, eager, strict=True))
    print(f"largest difference {largest:.1e}")
    print(f"graphs: {counters['stats']['unique_graphs']} compiled for the training")
    return int(largest > 1e-4 or compiled[-1] > compiled[0])


if __name__ == "__main__":
    sys.exit(main())
