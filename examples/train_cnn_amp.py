"""Train a small compiled ResNet under autocast, and compare the training with eager.

    python examples/train_cnn_amp.py

You learn that a training loop stays the same (autocast around the compiled model, the loss outside,
the optimizer in torch), and where its operators run. In training, torch's convolutions are faster,
so they and the small operators around them run in torch. In inference, the whole model is one ONNX
graph. bfloat16 has 8 bits of precision, and torch and ONNX Runtime round at different places: its
losses agree to about one percent, those of float32 to four digits.

Images are generated. Exits with status 1 if the losses differ by more, or do not fall.
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
    """Two convolutions with batch norm, and a shortcut."""

    def __init__(self, channels: int, out: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, out, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(out)
        self.conv2 = nn.Conv2d(out, out, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(out)
        self.shortcut = nn.Conv2d(channels, out, 1, stride, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.relu(self.bn1(self.conv1(x)))
        return torch.relu(self.bn2(self.conv2(y)) + self.shortcut(x))


def resnet() -> nn.Module:
    """Make two blocks and a classifier; the random weights are the same each time."""
    torch.manual_seed(0)
    return nn.Sequential(
        Block(3, 8, 1), Block(8, 16, 2), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 4)
    )


def batches() -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Make images of noise with a bright quadrant, which is the class."""
    generator = torch.Generator().manual_seed(1)
    result = []
    for _ in range(4):
        x, y = torch.randn(16, 3, 16, 16, generator=generator), torch.arange(16) % 4
        for image, quadrant in zip(x, y.tolist(), strict=True):
            row, column = 8 * (quadrant // 2), 8 * (quadrant % 2)
            image[:, row : row + 8, column : column + 8] += 1.5
        result.append((x, y))
    return result


def train(model: nn.Module, dtype: torch.dtype) -> list[float]:
    """Train, and return the mean loss of each epoch."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    means = []
    for _ in range(EPOCHS):
        total = 0.0
        for x, y in batches():
            is_autocast = dtype is not torch.float32
            with torch.autocast("cpu", dtype=dtype) if is_autocast else nullcontext():
                scores = model(x)
            loss = nn.functional.cross_entropy(scores.float(), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
        means.append(total / 4)
    return means


def print_placement(records: Sequence[Any]) -> None:
    """Print how many operators of each kind of graph run in ONNX Runtime and in torch."""
    counts_by_kind: dict[str, Counter[str]] = {}
    for record in {id(record.placement): record for record in records}.values():
        counts_by_kind.setdefault(record.kind, Counter()).update(p.where for p in record.placement)
    for kind, counts in counts_by_kind.items():
        print(f"  {kind}: {counts['onnx']} operators in ONNX Runtime, {counts['torch']} in torch")


def main() -> int:
    """Train in both precisions, eager and compiled; return 0 if losses agree and fall."""
    failed = False
    for dtype, tolerance in TOLERANCE.items():
        eager = train(resnet(), dtype)
        storage: dict[str, list] = {}
        model = resnet()
        compiled_model = torch.compile(model, backend="ortable", options={"storage": storage})
        compiled = train(compiled_model, dtype)
        print(f"{str(dtype).removeprefix('torch.')}: loss of each epoch")
        print("  eager   ", " ".join(f"{loss:.4f}" for loss in eager))
        print("  compiled", " ".join(f"{loss:.4f}" for loss in compiled))
        largest = max(abs(a - b) for a, b in zip(compiled, eager, strict=True))
        print(f"  largest difference {largest:.1e}")

        x, y = batches()[0]
        with torch.inference_mode():
            scores, expected = compiled_model.eval()(x), model.eval()(x)
        error = float((scores - expected).abs().max())
        accuracy = float((scores.argmax(1) == y).float().mean())
        print(f"  evaluation: {accuracy:.0%} correct, largest difference from eager {error:.1e}")
        print_placement(storage["instance"])
        failed |= largest > tolerance or compiled[-1] > 0.5 * compiled[0] or error > 1e-4
    print("losses agree and fall" if not failed else "losses DIFFER or do not fall")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
