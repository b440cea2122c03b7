"""Run a small DenseNet in eager mode, compiled, and exported to ONNX; then profile it.

    python examples/densenet_inference.py

You learn the two calls for inference, that the outputs stay the same, that batch norms are folded
into convolutions, and how to read the first lines of a profile.

Weights are random. Exits with status 1 if an output differs from eager's.
"""

from __future__ import annotations

import sys
from collections import Counter

import torch
from torch import nn

import ortable

GROWTH = 8
TOLERANCE = 1e-4


class DenseLayer(nn.Module):
    """A layer that appends new channels to its input."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.norm1 = nn.BatchNorm2d(channels)
        self.conv1 = nn.Conv2d(channels, 4 * GROWTH, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(4 * GROWTH)
        self.conv2 = nn.Conv2d(4 * GROWTH, GROWTH, 3, padding=1, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.conv1(torch.relu(self.norm1(x)))
        return torch.cat([x, self.conv2(torch.relu(self.norm2(y)))], 1)


def densenet() -> nn.Module:
    """Make two dense blocks of three layers, with a transition between them.

    A few steps in training mode set the statistics of the batch norms.
    """
    torch.manual_seed(0)
    width, layers = 16, []
    for block in range(2):
        for _ in range(3):
            layers.append(DenseLayer(width))
            width += GROWTH
        if block == 0:
            layers += [nn.BatchNorm2d(width), nn.ReLU(), nn.Conv2d(width, 16, 1), nn.AvgPool2d(2)]
            width = 16
    stem = nn.Conv2d(3, 16, 3, stride=2, padding=1)
    head = [nn.BatchNorm2d(width), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten()]
    model = nn.Sequential(stem, *layers, *head, nn.Linear(width, 10))
    with torch.no_grad():
        for _ in range(3):
            model(torch.randn(8, 3, 32, 32))
    return model.eval()


def main() -> int:
    """Compare outputs, count nodes, and profile; return 0 if the outputs equal eager's."""
    model, images = densenet(), torch.randn(4, 3, 32, 32)
    compiled = torch.compile(model, backend="ortable")
    batch = torch.export.Dim("batch", max=64)
    program = ortable.export(model, (images,), dynamic_shapes={"input": {0: batch}})

    differences = {}
    with torch.inference_mode():  # weights become constants, which ONNX Runtime folds and packs
        for x in (images, torch.randn(7, 3, 32, 32)):
            for name, run in (("compiled", compiled), ("exported", program)):
                difference = float((run(x) - model(x)).abs().max())
                differences[name, len(x)] = difference
                print(f"{name}, {len(x)} images: largest difference from eager {difference:.1e}")

    norms = sum(isinstance(module, nn.BatchNorm2d) for module in model.modules())
    nodes = Counter(node.op_type for node in program.model.graph.node)
    print(f"\n{norms} batch norms in the model, {nodes['BatchNormalization']} in the ONNX graph:")
    print("batch norms after a convolution are folded into its weights")
    print(f"nodes: {dict(nodes.most_common())}\n")

    with torch.inference_mode():
        profile = ortable.profile(model, images, calls=5)
    print("\n".join(str(profile).splitlines()[:12]))
    return int(max(differences.values()) > TOLERANCE)


if __name__ == "__main__":
    sys.exit(main())
