"""Train a small classifier of drawings and a small language model, and export both for the page.

Both train in seconds, from fixed seeds and without a download: the classifier on shapes drawn at
random, the language model on the characters of this project's license.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path

import torch
from torch.nn.functional import cross_entropy
from transformers import MistralConfig, MistralForCausalLM

import ortable

Lines = list[list[list[float]]]  # of a drawing: the points of each line
SIDE, MARGIN = 28, 3  # of the classifier's pictures, in pixels
TEXT = (Path(__file__).parents[2] / "LICENSE").read_text(encoding="utf-8")
CHARACTERS = "\n" + "".join(map(chr, range(32, 127)))
MAX_LENGTH = 512  # of a prompt and its continuation, in characters


def _make_curve(corners: int, turns: float, compute_radius: Callable[[int], float]) -> Lines:
    angles = [2 * math.pi * turns * index / corners for index in range(corners + 1)]
    radii = [compute_radius(index) for index in range(corners + 1)]
    return [[[r * math.sin(a), -r * math.cos(a)] for r, a in zip(radii, angles, strict=True)]]


SHAPES: dict[str, list[Lines]] = {  # each in the ways that people draw it, from -1 to 1
    "circle": [_make_curve(48, 1, lambda i: 1)],
    "square": [[[[-1, -1], [1, -1], [1, 1], [-1, 1], [-1, -1]]]],
    "triangle": [_make_curve(3, 1, lambda i: 1)],
    "cross": [[[[-1, -1], [1, 1]], [[1, -1], [-1, 1]]], [[[0, -1], [0, 1]], [[-1, 0], [1, 0]]]],
    "star": [_make_curve(5, 2, lambda i: 1), _make_curve(10, 1, lambda i: 1 - i % 2 / 2)],
    "spiral": [_make_curve(48, 2.5, lambda i: i / 48)],
    "zigzag": [[[[-1, -0.5], [-0.5, 0.5], [0, -0.5], [0.5, 0.5], [1, -0.5]]]],
}  # fmt: skip


def sample_points(lines: Lines, count: int = 64) -> torch.Tensor:
    """Return points at equal distances along lines: (count, 2)."""
    starts = torch.tensor([point for line in lines for point in line[:-1]]).float()
    ends = torch.tensor([point for line in lines for point in line[1:]]).float()
    lengths = (ends - starts).norm(dim=1)
    distances = torch.linspace(0, 0.999 * float(lengths.sum()), count)
    index = torch.searchsorted(lengths.cumsum(0), distances)
    part = (lengths.cumsum(0)[index] - distances) / lengths[index]
    return ends[index] - part[:, None] * (ends - starts)[index]


def draw_pictures(templates: torch.Tensor) -> torch.Tensor:
    """Draw points (batch, count, 2) as unsteady hands do; the ink fills a picture but a margin."""
    batch, count, _ = templates.shape
    angle = 0.5 * torch.rand(batch) - 0.25
    turn = torch.stack((angle.cos(), -angle.sin(), angle.sin(), angle.cos()), 1).reshape(-1, 2, 2)
    phase = torch.linspace(0, 2 * math.pi, count)[:, None, None] * torch.arange(1, 4)
    waves = (phase * torch.rand(batch, 1, 2, 3) + 6 * torch.rand(batch, 1, 2, 3)).sin()
    shake = (waves * torch.randn(batch, 1, 2, 3)).sum(3)
    points = (templates * (0.7 + 0.6 * torch.rand(batch, 1, 2))) @ turn + 0.06 * shake
    width = 1.2 + 2.8 * torch.rand(batch, 1, 1)
    low, high = points.amin(1, keepdim=True), points.amax(1, keepdim=True)
    scale = (SIDE - 2 * MARGIN - width) / (high - low).amax(2, keepdim=True)
    points = (points - (low + high) / 2) * scale + SIDE / 2
    centers = torch.arange(SIDE) + 0.5
    distances = torch.cdist(torch.cartesian_prod(centers, centers).flip(1), points).amin(2)
    return (width[:, :, 0] / 2 + 0.5 - distances).clamp(0, 1).reshape(batch, 1, SIDE, SIDE)


def _train(model: torch.nn.Module, steps: int, compute_loss: Callable[[], torch.Tensor]) -> None:
    optimizer = torch.optim.AdamW(model.parameters())
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, 1e-2, total_steps=steps)
    for _ in range(steps):
        loss = compute_loss()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()
    print(f"{type(model).__name__}: loss {loss.item():.3f}", flush=True)
    model.eval()


def train_classifier(steps: int = 120) -> torch.nn.Module:
    """Train a convolutional network on shapes drawn at random."""
    torch.manual_seed(0)
    conv, linear, relu, pool = torch.nn.Conv2d, torch.nn.Linear, torch.nn.ReLU, torch.nn.MaxPool2d
    model = torch.nn.Sequential(
        conv(1, 16, 3, padding=1), relu(), pool(2), conv(16, 32, 3, padding=1), relu(), pool(2),
        torch.nn.Flatten(), linear(32 * 49, 64), relu(), linear(64, len(SHAPES)),
    )  # fmt: skip
    labels = torch.tensor([label for label, ways in enumerate(SHAPES.values()) for _ in ways])
    templates = torch.stack([sample_points(lines) for ways in SHAPES.values() for lines in ways])

    def compute_loss() -> torch.Tensor:
        index = torch.randint(len(labels), (32,))
        return cross_entropy(model(draw_pictures(templates[index])), labels[index])

    _train(model, steps, compute_loss)
    return model


def encode_text(text: str) -> torch.Tensor:
    """Return the tokens of a text: the indices of its characters."""
    return torch.tensor([CHARACTERS.index(letter) for letter in text])


def train_language_model(steps: int = 200) -> MistralForCausalLM:
    """Train a transformer, which looks back 32 characters, on the text."""
    torch.manual_seed(0)
    config = MistralConfig(
        vocab_size=len(CHARACTERS), hidden_size=64, intermediate_size=128, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=MAX_LENGTH,
        sliding_window=32, initializer_range=0.08, eos_token_id=None,
    )  # fmt: skip
    model, tokens = MistralForCausalLM(config), encode_text(TEXT)

    def compute_loss() -> torch.Tensor:
        starts = torch.randint(len(tokens) - 64, (12, 1))
        batch = tokens[starts + torch.arange(65)]
        return cross_entropy(model(batch[:, :-1]).logits.flatten(0, 1), batch[:, 1:].flatten())

    _train(model, steps, compute_loss)
    return model


def export_models(folder: Path) -> tuple[torch.nn.Module, MistralForCausalLM]:
    """Train both models, export them to a folder and return them."""
    torch.set_num_threads(1)  # models this small train faster so
    folder.mkdir(parents=True, exist_ok=True)
    classifier, language_model = train_classifier(), train_language_model()
    example, names = (torch.zeros(1, 1, SIDE, SIDE),), (["pixels"], ["logits"])
    program = ortable.export(classifier, example, input_names=names[0], output_names=names[1])
    program.save(folder / "classifier.onnx")
    ortable.export_language_model(language_model, folder / "language", genai=False)
    page = {"shapes": SHAPES, "side": SIDE, "margin": MARGIN, "characters": CHARACTERS}
    page["maxLength"] = MAX_LENGTH
    (folder / "page.json").write_text(json.dumps(page), encoding="utf-8")
    return classifier, language_model
