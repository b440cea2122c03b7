"""Models whose forward computes gradients: forces, residuals of physics, gradients of samples."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn
from torch.func import functional_call, grad, hessian, jacrev, vjp, vmap

import ortable
from ortable.errors import ExportError

STRATEGY = "torch.export below autograd"


class Field(nn.Module):
    """Two layers, from [batch, 3] to [batch, 1]."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1))


class EnergyAndForces(Field):
    def forward(self, x):
        x = x.detach().requires_grad_(True)
        with torch.enable_grad():
            energy = self.layers(x)
            (gradient,) = torch.autograd.grad(energy.sum(), x)
        return {"energy": energy, "forces": -gradient, "positions": x}


class ForcesInTheModeOfTheCaller(Field):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.tensor(0))

    def forward(self, x):
        self.calls += 1
        x = x.detach().requires_grad_(True)
        return torch.autograd.grad(self.layers(x).sum(), x)[0] * self.calls


class Denoised(nn.Module):
    """Steps along the gradient of an energy of images."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4), nn.GELU(), nn.MaxPool2d(2)
        )

    def forward(self, x):
        for _ in range(2):
            x = x.detach().requires_grad_(True)
            with torch.enable_grad():
                energy = self.layers(x).square().sum()
                x = x - 0.1 * torch.autograd.grad(energy, x)[0]
        return x


class SecondDerivative(Field):
    def forward(self, x):
        x = x.clone().requires_grad_(True)
        with torch.enable_grad():
            first = torch.autograd.grad(self.layers(x).sum(), x, create_graph=True)[0]
            return first, torch.autograd.grad(first[:, 0].sum(), x)[0]


class Forces(Field):
    def forward(self, x):
        return -grad(lambda points: self.layers(points).sum())(x)


class Pullback(Field):
    def forward(self, x):
        y, pull = vjp(self.layers, x)
        return y, pull(torch.ones_like(y))[0]


class Laplacian(Field):
    def forward(self, x):
        first = grad(lambda point: self.layers(point).sum())
        return vmap(lambda point: torch.diagonal(jacrev(first)(point)).sum())(x)


class GradientsOfSamples(Field):
    def forward(self, x):
        def loss(weights, sample):
            return functional_call(self.layers, weights, (sample,)).square().sum()

        return vmap(grad(loss), (None, 0))(dict(self.layers.named_parameters()), x)["0.weight"]


class AdaptedWeights(Field):
    def forward(self, x):
        weights = dict(self.layers.named_parameters())
        gradients = grad(lambda w: functional_call(self.layers, w, (x,)).square().mean())(weights)
        adapted = {name: value - 0.1 * gradients[name] for name, value in weights.items()}
        return functional_call(self.layers, adapted, (x,))


class HessianForm(Field):
    def forward(self, x):
        return vmap(hessian(lambda point: self.layers(point).sum()))(x)


class BackwardTwice(Field):
    def forward(self, x):
        x = x.clone().requires_grad_(True)
        with torch.enable_grad():
            energy = self.layers(x).sum()
            return torch.autograd.grad(energy, x)[0] + torch.autograd.grad(energy, x)[0]


@pytest.mark.parametrize(
    "model_class",
    [
        EnergyAndForces, SecondDerivative, Forces, Pullback, Laplacian, GradientsOfSamples,
        AdaptedWeights,
    ],
)  # fmt: skip
def test_gradients_hold_for_other_batch_sizes(model_class: type[Field]) -> None:
    model = model_class()
    program = ortable.export(model, (torch.randn(2, 3),), dynamic_shapes={"x": {0: "batch"}})
    assert program.report.strategy == STRATEGY
    for size in (1, 2, 5):
        x = torch.randn(size, 3)
        torch.testing.assert_close(program(x), model(x))


PLAIN_GRADIENTS = {
    "grad": grad(lambda x: x.pow(3).sum()),
    "grad_and_value": lambda x: torch.func.grad_and_value(lambda y: y.pow(3).sum())(x),
    "vjp": lambda x: vjp(torch.sin, x)[1](torch.ones_like(x))[0],
    "jacrev": jacrev(torch.sin),
}


@pytest.mark.parametrize("shapes", [None, {"x": {0: "batch"}}], ids=["static", "dynamic"])
@pytest.mark.parametrize("name", PLAIN_GRADIENTS)
def test_gradients_of_an_input(name: str, shapes: dict[str, dict[int, str]] | None) -> None:
    """torch.export stores the input inside of the transform as a constant without data."""

    class Plain(nn.Module):
        def forward(self, x):
            return PLAIN_GRADIENTS[name](x)

    program = ortable.export(Plain(), (torch.rand(4),), dynamic_shapes=shapes)
    assert program.report.strategy == STRATEGY
    x = torch.rand(4 if shapes is None else 6)
    torch.testing.assert_close(program(x), Plain()(x))


def test_forward_needs_the_gradient_mode_of_the_caller() -> None:
    model, x = ForcesInTheModeOfTheCaller(), torch.randn(2, 3)
    settings = {"dynamic_shapes": {"x": {0: "batch"}}, "validate": True}
    options = ortable.ExportOptions(validate=True)
    program = ortable.export(model, (x,), export_options=options, **settings)
    assert model.calls == 0
    for size in (1, 5):
        x = torch.randn(size, 3)
        torch.testing.assert_close(program(x), copy.deepcopy(model)(x))
    with torch.no_grad(), pytest.raises(ExportError, match="raises on the example inputs"):
        ortable.export(model, (x,))


def test_an_empty_gradient_does_not_end_the_process() -> None:
    """torch's backward of batch_norm divides by the number of elements, where autograd does not."""
    model, shapes = Denoised().eval(), {"x": {0: "batch"}}
    program = ortable.export(model, (torch.randn(2, 3, 8, 8),), dynamic_shapes=shapes)
    for size in (1, 3):
        x = torch.randn(size, 3, 8, 8)
        torch.testing.assert_close(program(x), model(x))


def test_forward_mode_holds_for_the_size_of_the_example() -> None:
    model, x = HessianForm(), torch.randn(2, 3)
    torch.testing.assert_close(ortable.export(model, (x,))(x), model(x))


def test_a_batch_that_forward_mode_fixes_is_named() -> None:
    """torch's addition of a zero gradient reads its sizes as numbers."""
    with pytest.raises(ExportError, match=r"input 'x', dimension 0 \(batch\)") as error:
        ortable.export(HessianForm(), (torch.randn(2, 3),), dynamic_shapes={"x": {0: "batch"}})
    assert "was tried" in str(error.value)


def test_a_second_backward_is_refused_as_in_eager() -> None:
    model, x = BackwardTwice(), torch.randn(2, 3)
    message = "backward through the graph a second time"
    with pytest.raises(RuntimeError, match=message):
        model(x)
    with pytest.raises(ExportError, match=message):
        ortable.export(model, (x,))


def test_results_that_require_gradients_do_so_after_the_export() -> None:
    model, x = EnergyAndForces(), torch.randn(2, 3)
    ortable.export(model, (x,))
    assert model(x)["energy"].requires_grad
    assert "forward" not in vars(model)
