"""``tensor.data`` in forward, which torch.export loses, and what a failed capture leaves behind."""

from __future__ import annotations

import pytest
import torch
from torch.func import functional_call, grad, vmap

import ortable
from ortable.errors import ExportError

X = torch.tensor([1.0, -2.0, 3.0])


class Network(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.tensor([2.0, 3.0, 4.0]))
        self.register_buffer("count", torch.zeros(3))


class ReadsData(Network):
    def forward(self, x):
        return x.data * self.weight.data + self.weight


class WritesInto(Network):
    def forward(self, x):
        y = x * self.weight
        y.data.add_(1)
        return y * 2


class MovesItself(Network):
    def forward(self, x):
        self.to(x.device)
        return x * self.weight


@pytest.mark.parametrize(
    ("model", "tracing"),
    [(ReadsData(), False), (ReadsData(), True), (WritesInto(), False), (MovesItself(), False)],
)
def test_reads_of_data_are_traced(model, tracing) -> None:
    options = ortable.ExportOptions(tracing=tracing)
    program = ortable.export(model, (X,), export_options=options)
    assert torch.equal(program(X + 1), model(X + 1))


class ReplacesResult(Network):
    def forward(self, x):
        y = x * 1
        y.data = x + 1
        return y * x


class ReplacesBuffer(Network):
    def forward(self, x):
        self.count.data = x + 1
        return self.count * x


class ReplacesForAWhile(Network):
    def forward(self, x):
        old = self.weight.data
        self.weight.data = self.weight + 1
        result = self.weight * x
        self.weight.data = old
        return result


@pytest.mark.parametrize("model", [ReplacesResult(), ReplacesBuffer(), ReplacesForAWhile()])
def test_writes_of_data_are_refused(model) -> None:
    with pytest.raises(ExportError, match=r"test_data_access.py:\d+.*\n?.*memory of a tensor"):
        ortable.export(model, (X,))
    assert torch.equal(model(X), model(X))  # the weights have their data


class MovesAndReads(ReadsData):
    def forward(self, x):
        self.to(x.device)
        return super().forward(x)


def test_a_program_without_the_data_of_a_constant_is_refused() -> None:
    with pytest.raises(ExportError, match="lost the value of a tensor of forward"):
        ortable.export(MovesAndReads(), (X,))


class GradientsOfSamples(Network):
    def forward(self, x):
        def compute_loss(weights, row):
            return functional_call(self.head, weights, (row,)).sum()

        weights = dict(self.head.named_parameters())
        return vmap(grad(compute_loss), in_dims=(None, 0))(weights, x)

    def __init__(self) -> None:
        super().__init__()
        self.head = torch.nn.Linear(3, 2)


def test_a_failed_capture_leaves_no_transform_of_torch_func() -> None:
    model, rows = GradientsOfSamples(), torch.randn(4, 3)
    with pytest.raises(ExportError):
        ortable.export(model, (rows,), export_options=ortable.ExportOptions(strict=True))
    assert torch.rand(2).shape == (2,)  # refused while vmap runs
