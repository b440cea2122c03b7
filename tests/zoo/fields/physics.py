"""Differential equations, neural operators, wavelets, geometry and derivatives in a model."""

from __future__ import annotations

from typing import Any

import torch

from tests.zoo.modules import wrap_function
from tests.zoo.program import Program

INFERENCE = ("compile", "export")


class _Field(torch.nn.Module):
    """The right-hand side of an ordinary differential equation."""

    def __init__(self, size: int = 2) -> None:
        super().__init__()
        self.network = torch.nn.Sequential(
            torch.nn.Linear(size, 16), torch.nn.Tanh(), torch.nn.Linear(16, size)
        )

    def forward(self, t: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return self.network(y**3) * torch.cos(t)


def _states(n: int) -> tuple[torch.Tensor, ...]:
    return torch.randn(n, 2), torch.linspace(0.0, 1.0, 5)


# -- differential equations


def torchdiffeq__fixed_steps() -> Program:
    from torchdiffeq import odeint

    def solve(self: Any, y: torch.Tensor, times: torch.Tensor) -> torch.Tensor:
        return odeint(self.field, y, times, method="rk4")

    return Program(wrap_function(solve, field=_Field()), _states)


def torchdiffeq__adaptive_steps() -> Program:
    from torchdiffeq import odeint

    def solve(self: Any, y: torch.Tensor, times: torch.Tensor) -> torch.Tensor:
        return odeint(self.field, y, times, method="dopri5", rtol=1e-3, atol=1e-3)

    return Program(wrap_function(solve, field=_Field()), _states)


def torchdiffeq__adjoint() -> Program:
    from torchdiffeq import odeint_adjoint

    def solve(self: Any, y: torch.Tensor, times: torch.Tensor) -> torch.Tensor:
        return odeint_adjoint(self.field, y, times, method="midpoint")

    return Program(wrap_function(solve, field=_Field()), _states)


def torchdiffeq__multistep() -> Program:
    from torchdiffeq import odeint

    def solve(self: Any, y: torch.Tensor, velocity: torch.Tensor, times: torch.Tensor) -> Any:
        def move(t: torch.Tensor, state: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
            return state[1], self.field(t, state[0]) - 0.1 * state[1]

        return odeint(
            move, (y, velocity), times, method="explicit_adams", options={"step_size": 0.1}
        )

    def make(n: int) -> tuple[torch.Tensor, ...]:
        return torch.randn(n, 2), *_states(n)

    return Program(wrap_function(solve, field=_Field()), make)


def torchsde__diagonal_noise() -> Program:
    import torchsde

    class Equation(torch.nn.Module):
        noise_type, sde_type = "diagonal", "ito"

        def __init__(self) -> None:
            super().__init__()
            self.drift, self.diffusion = torch.nn.Linear(3, 3), torch.nn.Linear(3, 3)

        def f(self, t: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return self.drift(y) * torch.sin(t)

        def g(self, t: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return self.diffusion(y).sigmoid()

    def solve(self: Any, y: torch.Tensor, times: torch.Tensor) -> torch.Tensor:
        noise = torchsde.BrownianInterval(0.0, 1.0, size=tuple(y.shape), entropy=3)
        return torchsde.sdeint(self.equation, y, times, bm=noise, dt=0.25, method="euler")

    def make(n: int) -> tuple[torch.Tensor, ...]:
        return torch.randn(n, 3), torch.linspace(0.0, 1.0, 3)

    return Program(wrap_function(solve, equation=Equation()), make)


def torchcde__neural_cde() -> Program:
    import torchcde

    class Field(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = torch.nn.Linear(4, 4 * 3)

        def forward(self, t: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
            return self.linear(z).tanh().view(-1, 4, 3)

    def solve(self: Any, path: torch.Tensor) -> torch.Tensor:
        coefficients = torchcde.hermite_cubic_coefficients_with_backward_differences(path)
        spline = torchcde.CubicSpline(coefficients)
        start = self.start(spline.evaluate(spline.interval[0]))
        z = torchcde.cdeint(
            X=spline, func=self.field, z0=start, t=spline.interval, adjoint=False, method="rk4",
            options={"step_size": 1.0},
        )  # fmt: skip
        return z[:, -1]

    model = wrap_function(solve, field=Field(), start=torch.nn.Linear(3, 4))
    return Program(model, lambda n: (torch.randn(n, 5, 3),))


def torchcde__interpolation() -> Program:
    import torchcde

    def interpolate(self: Any, path: torch.Tensor, time: torch.Tensor) -> Any:
        spline = torchcde.CubicSpline(torchcde.natural_cubic_coeffs(path))
        linear = torchcde.LinearInterpolation(torchcde.linear_interpolation_coeffs(path))
        return spline.evaluate(time), spline.derivative(time), linear.evaluate(time)

    def make(n: int) -> tuple[torch.Tensor, ...]:
        path = torch.randn(n, 6, 2)
        path[:, 2, 0] = float("nan")
        return path, torch.tensor(2.3)

    return Program(wrap_function(interpolate), make, INFERENCE)


# -- operators


def _images(n: int) -> tuple[torch.Tensor, ...]:
    return (torch.randn(n, 2, 16, 16),)


def neuralop__fno() -> Program:
    from neuralop.models import FNO

    model = FNO(n_modes=(6, 6), in_channels=2, out_channels=1, hidden_channels=8, n_layers=2)
    return Program(model, _images)


def neuralop__tucker_fno() -> Program:
    from neuralop.models import TFNO

    model = TFNO(
        n_modes=(6, 6), in_channels=2, out_channels=1, hidden_channels=8, n_layers=2, rank=0.3,
        norm="group_norm", factorization="tucker", implementation="factorized",
    )  # fmt: skip
    return Program(model, _images)


def neuralop__u_shaped() -> Program:
    from neuralop.models import UNO

    model = UNO(
        2, 1, 8, lifting_channels=8, projection_channels=8, n_layers=3, uno_out_channels=[8, 8, 8],
        uno_n_modes=[[6, 6], [4, 4], [6, 6]],
        uno_scalings=[[1.0, 1.0], [0.5, 0.5], [2.0, 2.0]], channel_mlp_skip="linear",
    )  # fmt: skip
    return Program(model, _images)


def neuralop__sobolev_loss() -> Program:
    from neuralop.losses import H1Loss, LpLoss

    def compute_loss(self: Any, x: torch.Tensor, y: torch.Tensor) -> Any:
        x, losses = self.layer(x), (H1Loss(d=2), LpLoss(d=2, p=2))
        return [loss(x, y) for loss in losses]

    def make(n: int) -> tuple[torch.Tensor, ...]:
        return torch.randn(n, 1, 8, 8), torch.randn(n, 1, 8, 8)

    return Program(wrap_function(compute_loss, layer=torch.nn.Conv2d(1, 1, 3, padding=1)), make)


def kan__kolmogorov_arnold_network() -> Program:
    from kan import KAN

    model = KAN(width=[2, 3, 1], grid=3, k=3, seed=0, auto_save=False, symbolic_enabled=False)
    return Program(model.speed(), lambda n: (torch.rand(5 * n, 2) * 2 - 1,))


def kan__layer() -> Program:
    from kan.KANLayer import KANLayer

    model = KANLayer(in_dim=3, out_dim=4, num=4, k=3)
    return Program(model, lambda n: (torch.rand(5 * n, 3) * 2 - 1,))


# -- wavelets, transforms and splines


def pytorch_wavelets__discrete() -> Program:
    from pytorch_wavelets import DWTForward, DWTInverse

    def shrink(self: Any, x: torch.Tensor) -> Any:
        low, high = self.forward_transform(x)
        return low, self.inverse_transform((low, [part * 0.5 for part in high]))

    parts = {
        "forward_transform": DWTForward(J=2, wave="db3", mode="symmetric"),
        "inverse_transform": DWTInverse(wave="db3", mode="symmetric"),
    }
    return Program(wrap_function(shrink, **parts), _images, INFERENCE)


def pytorch_wavelets__dual_tree() -> Program:
    from pytorch_wavelets import DTCWTForward

    return Program(DTCWTForward(J=2, biort="near_sym_b", qshift="qshift_b"), _images, INFERENCE)


def ptwt__images() -> Program:
    import ptwt

    def transform(self: Any, x: torch.Tensor) -> Any:
        coefficients = ptwt.wavedec2(self.layer(x), "db2", level=2, mode="reflect")
        return coefficients[0], ptwt.waverec2(coefficients, "db2")

    return Program(wrap_function(transform, layer=torch.nn.Conv2d(2, 2, 1)), _images)


def ptwt__continuous() -> Program:
    import ptwt

    def transform(self: Any, x: torch.Tensor) -> torch.Tensor:
        return ptwt.cwt(x, torch.arange(1, 5), "gaus1")[0]

    return Program(wrap_function(transform), lambda n: (torch.randn(n, 32),), INFERENCE)


def torch_dct__compression() -> Program:
    import torch_dct

    def compress(self: Any, x: torch.Tensor) -> Any:
        frequencies = torch_dct.dct_2d(self.layer(x), norm="ortho")
        return frequencies, torch_dct.idct_2d(frequencies.round(), norm="ortho")

    return Program(wrap_function(compress, layer=torch.nn.Conv2d(2, 2, 1)), _images)


def torch_cubic_spline_grids__grid() -> Program:
    from torch_cubic_spline_grids import CubicBSplineGrid2d

    grid = CubicBSplineGrid2d(resolution=(4, 5), n_channels=2)
    grid.data = torch.randn(2, 4, 5)
    return Program(grid, lambda n: (torch.rand(6 * n, 2),))


def torchquad__integrals() -> Program:
    from torchquad import Boole, GaussLegendre, Simpson

    def integrate(self: Any, bounds: torch.Tensor) -> Any:
        def compute(x: torch.Tensor) -> torch.Tensor:
            return self.network(x.float()).squeeze(-1)

        rules = ((Simpson(), 81), (Boole(), 81), (GaussLegendre(), 64))
        return [rule.integrate(compute, 2, N=count, integration_domain=bounds)
                for rule, count in rules]  # fmt: skip

    network = torch.nn.Sequential(torch.nn.Linear(2, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))

    def make(n: int) -> tuple[torch.Tensor, ...]:
        return (torch.tensor([[0.0, 1.0], [-1.0, float(n)]]),)

    return Program(wrap_function(integrate, network=network), make)


def sympytorch__expressions() -> Program:
    import sympy
    import sympytorch

    x, y = sympy.symbols("x y")
    expressions = [sympy.cos(x) * 1.5 + y**2, sympy.Max(x, y) / (1 + sympy.exp(-x * 0.3))]
    module = sympytorch.SymPyModule(expressions=expressions)

    def compute(self: Any, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return self.expressions(x=x, y=y)

    def make(n: int) -> tuple[torch.Tensor, ...]:
        return torch.randn(3 * n), torch.randn(3 * n)

    return Program(wrap_function(compute, expressions=module), make)


# -- geometry


def geoopt__hyperbolic_layer() -> Program:
    import geoopt

    class Layer(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.ball = geoopt.PoincareBall(c=1.0)
            self.weight = torch.nn.Parameter(torch.randn(3, 4) * 0.3)
            self.bias = geoopt.ManifoldParameter(torch.full((3,), 0.1), manifold=self.ball)

        def forward(self, x: torch.Tensor) -> Any:
            points = self.ball.mobius_matvec(self.weight, self.ball.expmap0(x))
            points = self.ball.mobius_add(points, self.bias)
            return self.ball.logmap0(points), self.ball.dist(points[0], points)

    return Program(Layer(), lambda n: (torch.randn(4 * n, 4),))


def geoopt__manifolds() -> Program:
    import geoopt

    lorentz, sphere, stiefel = geoopt.Lorentz(), geoopt.Sphere(), geoopt.EuclideanStiefel()

    def project(self: Any, x: torch.Tensor, matrix: torch.Tensor) -> Any:
        points = lorentz.projx(x)
        return (
            lorentz.dist(points[:1], points[1:]),
            sphere.expmap(sphere.projx(x), sphere.proju(sphere.projx(x), x * 0.1 + 1)),
            stiefel.projx(matrix),
        )

    def make(n: int) -> tuple[torch.Tensor, ...]:
        return torch.randn(4 * n, 4), torch.randn(n, 4, 2)

    return Program(wrap_function(project), make, INFERENCE)


def pypose__rigid_motion() -> Program:
    import pypose

    def move(self: Any, twist: torch.Tensor, points: torch.Tensor) -> Any:
        pose = pypose.se3(self.layer(twist)).Exp()
        moved = pose.unsqueeze(1).Act(points)
        return moved, (pose @ pose.Inv()).tensor(), pose.matrix()

    def make(n: int) -> tuple[torch.Tensor, ...]:
        return torch.randn(n, 6), torch.randn(n, 5, 3)

    return Program(wrap_function(move, layer=torch.nn.Linear(6, 6)), make)


def pypose__imu_integration() -> Program:
    import pypose

    integrator = pypose.module.IMUPreintegrator(
        torch.zeros(3), pypose.identity_SO3(), torch.zeros(3), reset=True, prop_cov=False
    )

    def integrate(self: Any, dt: torch.Tensor, gyro: torch.Tensor, acc: torch.Tensor) -> Any:
        state = self.integrator(dt=dt, gyro=gyro, acc=acc)
        return state["pos"], state["vel"], state["rot"].tensor()

    def make(n: int) -> tuple[torch.Tensor, ...]:
        return torch.full((n, 6, 1), 0.1), torch.randn(n, 6, 3), torch.randn(n, 6, 3)

    return Program(wrap_function(integrate, integrator=integrator), make, INFERENCE)


# -- derivatives in a model


def _network() -> torch.nn.Module:
    return torch.nn.Sequential(torch.nn.Linear(2, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1))


def torch__heat_equation_residual() -> Program:
    def compute_residual(self: Any, points: torch.Tensor) -> torch.Tensor:
        with torch.enable_grad():
            points = points.detach().requires_grad_()
            value = self.network(points)
            (first,) = torch.autograd.grad(value.sum(), points, create_graph=True)
            (second,) = torch.autograd.grad(first[:, 0].sum(), points, create_graph=True)
        return first[:, 1] - 0.1 * second[:, 0]

    model = wrap_function(compute_residual, network=_network())
    return Program(model, lambda n: (torch.rand(5 * n, 2),))


def torch__functional_laplacian() -> Program:
    from torch.func import hessian, jacrev, vmap

    def compute_laplacian(self: Any, points: torch.Tensor) -> Any:
        def compute(x: torch.Tensor) -> torch.Tensor:
            return self.network(x).squeeze(-1)

        second = vmap(hessian(compute))(points)
        return vmap(jacrev(compute))(points), second.diagonal(dim1=-2, dim2=-1).sum(-1)

    model = wrap_function(compute_laplacian, network=_network())
    return Program(model, lambda n: (torch.rand(5 * n, 2),))


def torch__gradients_of_samples() -> Program:
    from torch.func import functional_call, grad, vmap

    def compute_gradients(self: Any, x: torch.Tensor, y: torch.Tensor) -> Any:
        def compute_loss(weights: Any, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return (functional_call(self.network, weights, (x[None],)) - y).square().mean()

        weights = dict(self.network.named_parameters())
        return vmap(grad(compute_loss), in_dims=(None, 0, 0))(weights, x, y)

    def make(n: int) -> tuple[torch.Tensor, ...]:
        return torch.randn(4 * n, 2), torch.randn(4 * n)

    return Program(wrap_function(compute_gradients, network=_network()), make)


def torch__hessian_vector_product() -> Program:
    from torch.func import grad, jvp, vjp

    def compute_products(self: Any, x: torch.Tensor, direction: torch.Tensor) -> Any:
        def compute(x: torch.Tensor) -> torch.Tensor:
            return self.network(x).sin().sum()

        gradient, product = jvp(grad(compute), (x,), (direction,))
        value, pull = vjp(compute, x)
        return gradient, product, value, pull(torch.ones_like(value))

    def make(n: int) -> tuple[torch.Tensor, ...]:
        return torch.randn(4 * n, 2), torch.randn(4 * n, 2)

    return Program(wrap_function(compute_products, network=_network()), make)


def torchmin__fixed_newton_steps() -> Program:
    from torchmin import minimize

    def fit(self: Any, start: torch.Tensor) -> torch.Tensor:
        def compute(x: torch.Tensor) -> torch.Tensor:
            return (x[1:] - x[:-1] ** 2).square().sum() + (1 - x[:-1]).square().sum()

        return minimize(compute, start, method="bfgs", max_iter=3).x

    return Program(wrap_function(fit), lambda n: (torch.randn(2 * n),), INFERENCE)
