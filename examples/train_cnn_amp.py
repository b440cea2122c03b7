"""Trains a small ResNet under autocast, compiled, beside the same training in eager.

    python examples/train_cnn_amp.py

You learn that a training loop stays as it is (autocast around the compiled model, the loss outside,
the optimizer in torch), and where its operators run. While weights change, torch's convolution is
the faster one, so the tables leave it and its small neighbours in torch; once the model only
answers, the whole of it is one ONNX graph. bfloat16 has 8 bits of precision, and torch and ONNX
Runtime round at other places: its losses agree to about a percent, those of float32 to four digits.

Images are generated. Ends with status 1 when the losses differ by more, or do not fall.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

import torch
from torch import nn

EPOCHS, TOLERANCE = 8, {torch.float32: 1e-4, torch.bfloat16: 5e-2}


class Block(nn.Module):
    """Two convolutions with batch norm, and a way around them."""

    def __init__(self, into: int, out: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(into, out, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(out)
        self.conv2 = nn.Conv2d(out, out, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(out)
        self.around = nn.Conv2d(into, out, 1, stride, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.relu(self.bn1(self.conv1(x)))
        return torch.relu(self.bn2(self.conv2(y)) + self.around(x))


def resnet() -> nn.Module:
    """Two blocks and a classifier of four classes, the same random weights each time."""
    torch.manual_seed(0)
    return nn.Sequential(
        Block(3, 8, 1), Block(8, 16, 2), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 4)
    )


def batches() -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Noise with a bright quarter, whose place is the class."""
    generator = torch.Generator().manual_seed(1)
    found = []
    for _ in range(4):
        x, y = torch.randn(16, 3, 16, 16, generator=generator), torch.arange(16) % 4
        for image, place in zip(x, y.tolist(), strict=True):
            row, column = 8 * (place // 2), 8 * (place % 2)
            image[:, row : row + 8, column : column + 8] += 1.5
        found.append((x, y))
    return found


def train(model: nn.Module, dtype: torch.dtype) -> list[float]:
    """The mean loss of each epoch."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    means = []
    for _ in range(EPOCHS):
        total = 0.0
        for x, y in batches():
            half = dtype is not torch.float32
            with torch.autocast("cpu", dtype=dtype) if half else nullcontext():
                scores = model(x)
            loss = nn.functional.cross_entropy(scores.float(), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
        means.append(total / 4)
    return means


def show_places(records: Sequence[Any]) -> None:
    """How many operators of each kind of graph run in ONNX Runtime."""
    places: dict[str, Counter[str]] = {}
    for record in {id(record.placement): record for record in records}.values():
        places.setdefault(record.kind, Counter()).update(p.where for p in record.placement)
    for kind, counts in places.items():
        print(f"  {kind}: {counts['onnx']} operators in ONNX Runtime, {counts['torch']} in torch")


def main() -> int:
    """Both precisions, eager and compiled; 0 when losses agree and fall."""
    wrong = False
    for dtype, tolerance in TOLERANCE.items():
        eager = train(resnet(), dtype)
        storage: dict[str, list] = {}
        model = resnet()
        fast = torch.compile(model, backend="ortable", options={"storage": storage})
        compiled = train(fast, dtype)
        print(f"{str(dtype).removeprefix('torch.')}: loss of each epoch")
        print("  eager   ", " ".join(f"{loss:.4f}" for loss in eager))
        print("  compiled", " ".join(f"{loss:.4f}" for loss in compiled))
        largest = max(abs(mine - theirs) for mine, theirs in zip(compiled, eager, strict=True))
        print(f"  largest difference {largest:.1e}")

        x, y = batches()[0]
        with torch.inference_mode():
            scores, expected = fast.eval()(x), model.eval()(x)
        apart = float((scores - expected).abs().max())
        right = float((scores.argmax(1) == y).float().mean())
        print(f"  evaluation: {right:.0%} right, largest difference from eager {apart:.1e}")
        show_places(storage["instance"])
        wrong |= largest > tolerance or compiled[-1] > 0.5 * compiled[0] or apart > 1e-4
    print("losses agree and fall" if not wrong else "losses DIFFER or do not fall")
    return int(wrong)


if __name__ == "__main__":
    sys.exit(main())
