"""Train a small network on scikit-learn's diabetes data, in eager mode and in ONNX Runtime.

Prints both losses, and the ONNX graphs of forward and backward; exits with status 1 if the losses
differ.
"""

from __future__ import annotations

import copy
import sys
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from sklearn.datasets import load_diabetes
from torch._dynamo.backends.common import aot_autograd

from ortable import get_decomposition_table, onnx_custom_backend, pretty_onnx

EPOCHS = 3
BATCH_SIZE = 5
FIRST_STEP_TOLERANCE = 1e-5
EPOCH_TOLERANCE = 1e-3


class MLP(torch.nn.Module):
    """A network with 10 features, 32 hidden units and 1 output."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.Sequential(
            torch.nn.Linear(10, 32),
            torch.nn.ReLU(),
            torch.nn.Linear(32, 1),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x)


class DiabetesDataset(torch.utils.data.Dataset):
    """442 patients: 10 features, and the progression of the disease."""

    def __init__(self) -> None:
        features, target = load_diabetes(return_X_y=True)
        self.features = torch.from_numpy(features / 10).to(torch.float32)
        self.target = torch.from_numpy(target).to(torch.float32).reshape((-1, 1))

    def __len__(self) -> int:
        return len(self.features)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        return self.features[index], self.target[index]


@dataclass(frozen=True)
class Losses:
    """The loss of the first step, and the sum of losses of each epoch."""

    first: float
    epochs: tuple[float, ...]


def initial_model() -> MLP:
    """Make the model; the random weights are the same at every call."""
    torch.manual_seed(0)
    return MLP()


def train(model: Any, epochs: int = EPOCHS) -> Losses:
    """Train with Adam on the absolute error; batches have the same order at every call."""
    loader = torch.utils.data.DataLoader(
        DiabetesDataset(),
        batch_size=BATCH_SIZE,
        shuffle=True,
        num_workers=0,
        generator=torch.Generator().manual_seed(1),
    )
    loss_function = torch.nn.L1Loss()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-1)
    first: float | None = None
    sums = []
    for _ in range(epochs):
        total = 0.0
        for features, target in loader:
            optimizer.zero_grad()
            loss = loss_function(model(features), target)
            loss.backward()
            optimizer.step()
            first = loss.item() if first is None else first
            total += loss.item()
        sums.append(total)
    assert first is not None
    return Losses(first, tuple(sums))


def compiled_model(dynamic: bool, storage: dict[str, Any]) -> Any:
    """Compile the initial model, with forward and backward in ONNX Runtime."""
    torch._dynamo.reset()
    backend = aot_autograd(
        fw_compiler=lambda *args, **kwargs: onnx_custom_backend(
            *args, target_opset=18, storage=storage, **kwargs
        ),
        decompositions=get_decomposition_table(),
    )
    return torch.compile(
        copy.deepcopy(initial_model()), backend=backend, fullgraph=True, dynamic=dynamic
    )


def relative(a: float, b: float) -> float:
    """Return the difference relative to the first value."""
    return abs(a - b) / max(abs(a), 1e-12)


def report(eager: Losses, compiled: Losses) -> bool:
    """Print the losses of both trainings; return whether they agree."""
    is_close = relative(eager.first, compiled.first) <= FIRST_STEP_TOLERANCE
    print(
        f"first step: eager {eager.first:.6f}, ONNX Runtime {compiled.first:.6f}, "
        f"relative difference {relative(eager.first, compiled.first):.1e}"
    )
    for epoch, (a, b) in enumerate(zip(eager.epochs, compiled.epochs, strict=True), start=1):
        print(
            f"epoch {epoch}: eager {a:.4f}, ONNX Runtime {b:.4f}, "
            f"relative difference {relative(a, b):.1e}"
        )
        is_close = is_close and relative(a, b) <= EPOCH_TOLERANCE
    return is_close


def print_graphs(instances: Sequence[Any]) -> None:
    """Print the ONNX graphs of forward and backward."""
    for number, instance in enumerate(instances):
        print(f"\n-- model {number}, {instance['kind']}, running on {instance['providers']}")
        print(pretty_onnx(instance.onnx))


def main() -> int:
    """Train with static, then with dynamic shapes; return 0 if every loss equals eager's."""
    warnings.simplefilter("error", UserWarning)
    eager = train(initial_model())
    status = 0
    for dynamic, session_count in ((False, 4), (True, 2)):
        storage: dict[str, Any] = {}
        compiled = train(compiled_model(dynamic, storage))
        instances = storage["instance"]
        print(f"\n== {'dynamic' if dynamic else 'static'} shapes")
        agrees = report(eager, compiled)
        print(f"{len(instances)} sessions were created, {session_count} expected")
        print_graphs(instances[:2])
        if not agrees or len(instances) != session_count:
            status = 1
    print("\nlosses equal eager's" if status == 0 else "\nlosses or sessions differ from eager's")
    return status


if __name__ == "__main__":
    sys.exit(main())
