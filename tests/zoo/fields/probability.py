"""Gaussian processes, probabilistic programs, normalizing flows and optimal transport."""

from __future__ import annotations

from typing import Any

import torch

from tests.zoo.modules import wrap_function
from tests.zoo.program import Program

INFERENCE = ("compile", "export")


def _mean(result: Any) -> torch.Tensor:
    return result.mean()


def _points(n: int) -> tuple[torch.Tensor, ...]:
    return (torch.randn(4 * n, 4),)


def _two_clouds(n: int) -> tuple[torch.Tensor, ...]:
    return torch.randn(5 * n, 3), torch.randn(4 * n, 3)


# -- gpytorch and botorch


def _exact_process() -> tuple[Any, Any]:
    import gpytorch

    class Process(gpytorch.models.ExactGP):
        def __init__(self, likelihood: Any) -> None:
            super().__init__(torch.rand(8, 2), torch.randn(8), likelihood)
            self.mean_module = gpytorch.means.ConstantMean()
            kernel = gpytorch.kernels.RBFKernel(ard_num_dims=2) + gpytorch.kernels.MaternKernel()
            self.covar_module = gpytorch.kernels.ScaleKernel(kernel)

        def forward(self, x: torch.Tensor) -> Any:
            mean, covariance = self.mean_module(x), self.covar_module(x)
            return gpytorch.distributions.MultivariateNormal(mean, covariance)

    likelihood = gpytorch.likelihoods.GaussianLikelihood()
    return Process(likelihood), likelihood


def gpytorch__marginal_likelihood() -> Program:
    import gpytorch

    process, likelihood = _exact_process()
    marginal = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, process)

    def compute_loss(self: Any, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        prior = self.marginal.model.forward(x)
        return -self.marginal(prior, y)

    def make(n: int) -> tuple[torch.Tensor, ...]:
        return torch.rand(4 * n, 2), torch.randn(4 * n)

    return Program(wrap_function(compute_loss, marginal=marginal), make, loss=_mean)


def gpytorch__prediction() -> Program:
    process, likelihood = _exact_process()

    def predict(self: Any, x: torch.Tensor) -> Any:
        prediction = self.likelihood(self.process(x))
        return prediction.mean, prediction.variance, prediction.confidence_region()

    model = wrap_function(predict, process=process, likelihood=likelihood)
    return Program(model, lambda n: (torch.rand(3 * n, 2),), INFERENCE)


def gpytorch__variational_bound() -> Program:
    import gpytorch

    class Process(gpytorch.models.ApproximateGP):
        def __init__(self, points: torch.Tensor) -> None:
            distribution = gpytorch.variational.CholeskyVariationalDistribution(len(points))
            strategy = gpytorch.variational.VariationalStrategy(self, points, distribution)
            super().__init__(strategy)
            self.mean_module = gpytorch.means.LinearMean(2)
            self.covar_module = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel())

        def forward(self, x: torch.Tensor) -> Any:
            mean, covariance = self.mean_module(x), self.covar_module(x)
            return gpytorch.distributions.MultivariateNormal(mean, covariance)

    process = Process(torch.rand(6, 2))
    process.variational_strategy.variational_params_initialized.fill_(1)
    likelihood = gpytorch.likelihoods.GaussianLikelihood()
    bound = gpytorch.mlls.VariationalELBO(likelihood, process, num_data=100)

    def compute_loss(self: Any, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return -self.bound(self.bound.model(x), y)

    def make(n: int) -> tuple[torch.Tensor, ...]:
        return torch.rand(4 * n, 2), torch.randn(4 * n)

    return Program(wrap_function(compute_loss, bound=bound), make, loss=_mean)


def gpytorch__kernels() -> Program:
    from gpytorch import kernels

    kernel = (
        kernels.ScaleKernel(kernels.PeriodicKernel())
        + kernels.RQKernel() * kernels.LinearKernel()
        + kernels.MaternKernel(nu=1.5) * kernels.PolynomialKernel(power=2)
    )

    def compute_matrix(self: Any, x: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
        return self.kernel(x, z).to_dense()

    return Program(wrap_function(compute_matrix, kernel=kernel), _two_clouds)


def _botorch_model() -> Any:
    from botorch.models import SingleTaskGP

    x = torch.rand(8, 2, dtype=torch.float64)
    return SingleTaskGP(x, torch.sin(x.sum(-1, keepdim=True) * 3)).eval()


def _candidates(n: int) -> tuple[torch.Tensor, ...]:
    return (torch.rand(n, 1, 2, dtype=torch.float64),)


def botorch__expected_improvement() -> Program:
    from botorch.acquisition import LogExpectedImprovement

    return Program(LogExpectedImprovement(_botorch_model(), best_f=0.5), _candidates, INFERENCE)


def botorch__upper_confidence_bound() -> Program:
    from botorch.acquisition import UpperConfidenceBound

    return Program(UpperConfidenceBound(_botorch_model(), beta=0.2), _candidates, INFERENCE)


def botorch__batch_improvement() -> Program:
    from botorch.acquisition import qLogExpectedImprovement
    from botorch.sampling import SobolQMCNormalSampler

    sampler = SobolQMCNormalSampler(torch.Size([8]), seed=0)
    model = qLogExpectedImprovement(_botorch_model(), best_f=0.5, sampler=sampler)
    return Program(model, lambda n: (torch.rand(n, 2, 2, dtype=torch.float64),), INFERENCE)


# -- pyro


def pyro__enumerated_mixture() -> Program:
    import pyro
    import pyro.distributions as dist
    from pyro.infer import TraceEnum_ELBO
    from pyro.nn import PyroModule, PyroParam

    pyro.clear_param_store()

    class Mixture(PyroModule):
        def __init__(self) -> None:
            super().__init__()
            self.locations = PyroParam(torch.tensor([-1.0, 0.5, 2.0]))
            self.scale = PyroParam(torch.tensor(0.7), constraint=dist.constraints.positive)
            self.weights = PyroParam(torch.ones(3) / 3, constraint=dist.constraints.simplex)

        def forward(self, x: torch.Tensor) -> None:
            with pyro.plate("data", x.shape[0]):
                component = pyro.sample(
                    "component", dist.Categorical(self.weights), infer={"enumerate": "parallel"}
                )
                mean = self.locations[component]
                pyro.sample("x", dist.Normal(mean, self.scale), obs=x)

    class Guide(PyroModule):
        def forward(self, x: torch.Tensor) -> None:
            return None

    bound = TraceEnum_ELBO(max_plate_nesting=1)(Mixture(), Guide())
    return Program(bound, lambda n: (torch.randn(5 * n),), ("train",), loss=_mean)


def pyro__log_density_of_trace() -> Program:
    import pyro
    import pyro.distributions as dist
    from pyro import poutine

    def model(x: torch.Tensor) -> None:
        weight = pyro.sample("weight", dist.Normal(torch.zeros(3), 1.0).to_event(1))
        scale = pyro.sample("scale", dist.HalfCauchy(1.0))
        with pyro.plate("data", x.shape[0]):
            pyro.sample("y", dist.StudentT(3.0, x @ weight, scale), obs=x.sum(-1))

    def compute_density(self: Any, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        values = {"weight": weight, "scale": torch.tensor(0.5)}
        trace = poutine.trace(poutine.condition(model, data=values)).get_trace(x)
        return trace.log_prob_sum()

    def make(n: int) -> tuple[torch.Tensor, ...]:
        return torch.randn(4 * n, 3), torch.randn(3)

    return Program(wrap_function(compute_density), make, INFERENCE)


def pyro__spline_flow() -> Program:
    import pyro.distributions as dist
    from pyro.distributions import transforms

    spline = transforms.spline_coupling(4, split_dim=2, count_bins=4, hidden_dims=[8, 8])
    affine = transforms.affine_autoregressive(4, hidden_dims=[16])

    def compute_density(self: Any, x: torch.Tensor) -> torch.Tensor:
        base = dist.Normal(torch.zeros(4), torch.ones(4)).to_event(1)
        density = dist.TransformedDistribution(base, [self.spline, self.affine])
        result = density.log_prob(x)
        density.clear_cache()
        return result

    model = wrap_function(compute_density, spline=spline, affine=affine)
    return Program(model, _points, loss=lambda x: -x.mean())


def pyro__hidden_markov_model() -> Program:
    import pyro.distributions as dist

    def compute_density(
        self: Any, x: torch.Tensor, transition: torch.Tensor, initial: torch.Tensor
    ) -> torch.Tensor:
        observation = dist.Normal(torch.tensor([-1.0, 0.0, 1.0]), 0.5)
        initial, transition = initial.log_softmax(-1), transition.log_softmax(-1)
        return dist.DiscreteHMM(initial, transition, observation, duration=6).log_prob(x)

    def make(n: int) -> tuple[torch.Tensor, ...]:
        return torch.randn(n, 6), torch.randn(3, 3), torch.randn(3)

    return Program(wrap_function(compute_density), make, INFERENCE)


# -- normalizing flows


def zuko__spline_flow() -> Program:
    import zuko

    flow = zuko.flows.NSF(features=4, context=2, transforms=2, hidden_features=(16, 16), bins=4)

    def compute_density(self: Any, x: torch.Tensor, context: torch.Tensor) -> torch.Tensor:
        return self.flow(context).log_prob(x)

    def make(n: int) -> tuple[torch.Tensor, ...]:
        return torch.randn(4 * n, 4), torch.randn(4 * n, 2)

    return Program(wrap_function(compute_density, flow=flow), make, loss=lambda x: -x.mean())


def zuko__sampling_from_autoregressive_flow() -> Program:
    import zuko

    flow = zuko.flows.MAF(features=3, transforms=2, hidden_features=(16,), randperm=True)

    def invert(self: Any, noise: torch.Tensor) -> Any:
        return self.flow().transform.inv.call_and_ladj(noise)

    return Program(wrap_function(invert, flow=flow), lambda n: (torch.randn(4 * n, 3),))


def zuko__continuous_flow() -> Program:
    import zuko

    flow = zuko.flows.CNF(features=2, context=0, hidden_features=(8,), atol=1e-3, rtol=1e-3)

    def compute_density(self: Any, x: torch.Tensor) -> torch.Tensor:
        return self.flow().log_prob(x)

    return Program(
        wrap_function(compute_density, flow=flow),
        lambda n: (torch.randn(4 * n, 2),),
        loss=lambda x: -x.mean(),
    )


def zuko__mixture_and_polynomials() -> Program:
    import zuko

    mixture = zuko.flows.GMM(features=4, components=3)
    polynomial = zuko.flows.BPF(features=4, transforms=1, hidden_features=(16,))

    def compute_density(self: Any, x: torch.Tensor) -> Any:
        return self.mixture().log_prob(x), self.polynomial().log_prob(x)

    return Program(wrap_function(compute_density, mixture=mixture, polynomial=polynomial), _points)


def normflows__real_nvp() -> Program:
    import normflows

    flows = []
    for _ in range(2):
        network = normflows.nets.MLP([2, 16, 4], init_zeros=True)
        flows += [
            normflows.flows.AffineCouplingBlock(network),
            normflows.flows.Permute(4, mode="swap"),
            normflows.flows.ActNorm(4),
        ]
    model = normflows.NormalizingFlow(normflows.distributions.DiagGaussian(4), flows)
    return Program(wrap_function(lambda self, x: self.flow.forward_kld(x), flow=model), _points)


def normflows__spline_coupling() -> Program:
    import normflows

    flows = [
        normflows.flows.AutoregressiveRationalQuadraticSpline(4, 1, 16),
        normflows.flows.CoupledRationalQuadraticSpline(4, 1, 16, num_bins=4),
        normflows.flows.LULinearPermute(4),
    ]
    model = normflows.NormalizingFlow(normflows.distributions.DiagGaussian(4), flows)
    return Program(wrap_function(lambda self, x: self.flow.log_prob(x), flow=model), _points)


def normflows__image_glow() -> Program:
    import normflows

    blocks = [normflows.flows.GlowBlock(12, 16, split_mode="channel") for _ in range(2)]
    flows = [*blocks, normflows.flows.Squeeze()]
    base = normflows.distributions.DiagGaussian((12, 4, 4))
    model = normflows.NormalizingFlow(base, flows)
    for block in blocks:
        block.flows[-1].data_dep_init_done.fill_(1.0)
    return Program(
        wrap_function(lambda self, x: self.flow.log_prob(x), flow=model),
        lambda n: (torch.randn(n, 3, 8, 8),),
    )


def nflows__masked_autoregressive() -> Program:
    from nflows.distributions import StandardNormal
    from nflows.flows import Flow
    from nflows.transforms import (
        CompositeTransform,
        MaskedAffineAutoregressiveTransform,
        ReversePermutation,
    )

    transforms = [
        part
        for _ in range(2)
        for part in (ReversePermutation(4), MaskedAffineAutoregressiveTransform(4, 16))
    ]
    flow = Flow(CompositeTransform(transforms), StandardNormal([4]))
    model = wrap_function(lambda self, x: self.flow.log_prob(inputs=x), flow=flow)
    return Program(model, _points)


def nflows__spline_inverse() -> Program:
    from nflows.nn.nets import ResidualNet
    from nflows.transforms import PiecewiseRationalQuadraticCouplingTransform

    transform = PiecewiseRationalQuadraticCouplingTransform(
        torch.tensor([1, 0, 1, 0]),
        lambda inputs, outputs: ResidualNet(inputs, outputs, hidden_features=16, num_blocks=1),
        num_bins=4, tails="linear", tail_bound=2.0,
    )  # fmt: skip
    return Program(wrap_function(lambda self, x: self.flow.inverse(x), flow=transform), _points)


def FrEIA__all_in_one_blocks() -> Program:
    from FrEIA import framework, modules

    network = framework.SequenceINN(6)
    for _ in range(2):
        network.append(
            modules.AllInOneBlock,
            subnet_constructor=lambda a, b: torch.nn.Sequential(
                torch.nn.Linear(a, 16), torch.nn.ReLU(), torch.nn.Linear(16, b)
            ),
            permute_soft=True,
        )
    return Program(network, lambda n: (torch.randn(4 * n, 6),))


def FrEIA__graph_with_condition() -> Program:
    from FrEIA import framework, modules

    def make_network(a: int, b: int) -> torch.nn.Module:
        return torch.nn.Conv2d(a, b, 3, padding=1)

    nodes = [framework.InputNode(2, 8, 8, name="input"), framework.ConditionNode(3, 4, 4)]
    nodes.append(framework.Node(nodes[0], modules.HaarDownsampling, {}))
    nodes.append(
        framework.Node(
            nodes[-1], modules.GLOWCouplingBlock, {"subnet_constructor": make_network},
            conditions=nodes[1],
        )
    )  # fmt: skip
    nodes.append(framework.OutputNode(nodes[-1], name="output"))

    def transform(self: Any, x: torch.Tensor, condition: torch.Tensor) -> Any:
        return self.network([x], c=[condition])

    model = wrap_function(transform, network=framework.GraphINN(nodes))
    return Program(model, lambda n: (torch.randn(n, 2, 8, 8), torch.randn(n, 3, 4, 4)))


# -- optimal transport


def geomloss__sinkhorn_divergence() -> Program:
    from geomloss import SamplesLoss

    loss = SamplesLoss("sinkhorn", p=2, blur=0.5, diameter=4.0, backend="tensorized")

    def compute_loss(self: Any, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return self.loss(self.layer(x), self.layer(y))

    model = wrap_function(compute_loss, loss=loss, layer=torch.nn.Linear(3, 2))
    return Program(model, _two_clouds)


def geomloss__kernel_norms() -> Program:
    from geomloss import SamplesLoss

    def compute_loss(self: Any, x: torch.Tensor, y: torch.Tensor) -> Any:
        x, y = self.layer(x), self.layer(y)
        return self.gaussian(x, y), self.energy(x, y), self.laplacian(x, y)

    losses = {
        name: SamplesLoss(name, blur=0.5, backend="tensorized")
        for name in ("gaussian", "energy", "laplacian")
    }
    model = wrap_function(compute_loss, layer=torch.nn.Linear(3, 2), **losses)
    return Program(model, _two_clouds)
