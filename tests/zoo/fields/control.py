"""Policies, value functions and losses of reinforcement learning."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import nn

from tests.zoo.program import Program


def _rate(_: float) -> float:
    return 1e-3


# -- stable_baselines3


class _Evaluated(nn.Module):
    """A policy: what it does, and how likely some actions are."""

    def __init__(self, policy: nn.Module) -> None:
        super().__init__()
        self.policy = policy

    def forward(self, observation: Any, actions: torch.Tensor) -> Any:
        best = self.policy(observation, deterministic=True)
        return *best, *self.policy.evaluate_actions(observation, actions)


def stable_baselines3__gaussian_policy() -> Program:
    from gymnasium.spaces import Box
    from stable_baselines3.common.policies import ActorCriticPolicy

    box, actions = Box(-1, 1, (6,)), Box(-1, 1, (2,))
    policy = ActorCriticPolicy(box, actions, _rate, net_arch={"pi": [8], "vf": [8]})
    return Program(_Evaluated(policy), lambda n: (torch.randn(n, 6), torch.randn(n, 2)))


def stable_baselines3__policy_of_several_inputs() -> Program:
    from gymnasium.spaces import Box, Dict, Discrete, MultiDiscrete
    from stable_baselines3.common.policies import MultiInputActorCriticPolicy

    spaces = Dict(
        {"image": Box(0, 255, (3, 36, 36), np.uint8), "pose": Box(-1, 1, (4,)), "mode": Discrete(3)}
    )
    policy = MultiInputActorCriticPolicy(
        spaces, MultiDiscrete([3, 2]), _rate, net_arch=[8],
        features_extractor_kwargs={"cnn_output_dim": 8},
    )  # fmt: skip

    def make(n: int) -> tuple[Any, ...]:
        observation = {
            "image": torch.randint(0, 256, (n, 3, 36, 36), dtype=torch.uint8),
            "pose": torch.randn(n, 4),
            "mode": torch.randint(0, 3, (n,)),
        }
        return observation, torch.randint(0, 2, (n, 2))

    return Program(_Evaluated(policy), make)


def stable_baselines3__dqn_loss() -> Program:
    from gymnasium.spaces import Box, Discrete
    from stable_baselines3.dqn.policies import DQNPolicy

    class Loss(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.policy = DQNPolicy(Box(-1, 1, (6,)), Discrete(4), _rate, net_arch=[8])

        def forward(self, now: torch.Tensor, action: torch.Tensor, after: torch.Tensor) -> Any:
            with torch.no_grad():
                target = self.policy.q_net_target(after).max(dim=1).values
            value = self.policy.q_net(now).gather(1, action[:, None])[:, 0]
            return nn.functional.smooth_l1_loss(value, 0.9 * target), self.policy(now)

    def make(n: int) -> tuple[torch.Tensor, ...]:
        return torch.randn(n, 6), torch.randint(0, 4, (n,)), torch.randn(n, 6)

    return Program(Loss(), make)


def stable_baselines3__squashed_actor_and_critics() -> Program:
    from gymnasium.spaces import Box
    from stable_baselines3.sac.policies import SACPolicy

    class Evaluated(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            spaces = Box(-1, 1, (6,)), Box(-1, 1, (2,))
            self.policy = SACPolicy(*spaces, _rate, net_arch=[8], use_sde=False)

        def forward(self, observation: torch.Tensor, actions: torch.Tensor) -> Any:
            best = self.policy(observation, deterministic=True)
            likelihood = self.policy.actor.action_dist.log_prob(actions)
            return best, likelihood, self.policy.critic(observation, actions)

    return Program(Evaluated(), lambda n: (torch.randn(n, 6), 0.9 * torch.rand(n, 2)))


# -- tensordict


def tensordict__sequence_of_modules() -> Program:
    from tensordict import TensorDict
    from tensordict.nn import TensorDictModule, TensorDictSequential

    class Sequence(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = TensorDictSequential(
                TensorDictModule(nn.Linear(6, 8), in_keys=["observation"], out_keys=["hidden"]),
                TensorDictModule(nn.Tanh(), in_keys=["hidden"], out_keys=["hidden"]),
                TensorDictModule(nn.Linear(8, 2), in_keys=["hidden"], out_keys=[("agent", "act")]),
            )

        def forward(self, observation: torch.Tensor) -> torch.Tensor:
            data = TensorDict({"observation": observation}, batch_size=observation.shape[:1])
            return self.net(data)["agent", "act"]

    return Program(Sequence(), lambda n: (torch.randn(n, 6),))


def tensordict__dispatched_arguments() -> Program:
    """A module takes tensors by name instead of a dictionary."""
    from tensordict.nn import (
        NormalParamExtractor,
        ProbabilisticTensorDictModule,
        ProbabilisticTensorDictSequential,
        TensorDictModule,
    )

    class Policy(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            net = nn.Sequential(nn.Linear(6, 8), nn.ELU(), nn.Linear(8, 4), NormalParamExtractor())
            self.policy = ProbabilisticTensorDictSequential(
                TensorDictModule(net, in_keys=["observation"], out_keys=["loc", "scale"]),
                ProbabilisticTensorDictModule(
                    in_keys=["loc", "scale"], out_keys=["action"], return_log_prob=True,
                    distribution_class=torch.distributions.Normal, default_interaction_type="mean",
                ),
            )  # fmt: skip

        def forward(self, observation: torch.Tensor) -> Any:
            return self.policy(observation=observation)

    return Program(Policy(), lambda n: (torch.randn(n, 6),))


# -- torchrl


def torchrl__dueling_values() -> Program:
    from torchrl.modules import DuelingCnnDQNet

    model = DuelingCnnDQNet(
        out_features=4,
        cnn_kwargs={"in_features": 3, "num_cells": [4, 4], "kernel_sizes": 3, "strides": 2},
        mlp_kwargs={"in_features": 36, "num_cells": 8, "depth": 1},
    )
    return Program(model, lambda n: (torch.randn(n, 3, 16, 16),))


def torchrl__agents() -> Program:
    """The weights of several agents are stacked and mapped with vmap."""
    from torchrl.modules import MultiAgentMLP

    model = MultiAgentMLP(
        n_agent_inputs=5, n_agent_outputs=2, n_agents=3, centralized=True, share_params=False,
        depth=1, num_cells=8,
    )  # fmt: skip
    return Program(model, lambda n: (torch.randn(n, 3, 5),))


def torchrl__advantages() -> Program:
    from torchrl.objectives.value.functional import (
        generalized_advantage_estimate,
        vec_generalized_advantage_estimate,
    )

    class Advantages(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.value = nn.Linear(4, 1)

        def forward(self, states: torch.Tensor, reward: torch.Tensor, done: torch.Tensor) -> Any:
            values = self.value(states)
            args = 0.9, 0.8, values[:, :-1], values[:, 1:], reward, done
            return generalized_advantage_estimate(*args), vec_generalized_advantage_estimate(*args)

    def make(n: int) -> tuple[torch.Tensor, ...]:
        return torch.randn(n, 7, 4), torch.randn(n, 6, 1), torch.rand(n, 6, 1) < 0.3

    return Program(Advantages(), make)


def torchrl__distributions() -> Program:
    from torchrl.modules import MaskedCategorical, TanhNormal, TruncatedNormal

    class Distributions(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.head = nn.Linear(6, 8)

        def forward(self, x: torch.Tensor, mask: torch.Tensor, y: torch.Tensor) -> Any:
            location, scale, logits = self.head(x).split((2, 2, 4), dim=-1)
            scale = nn.functional.softplus(scale) + 0.1
            squashed = TanhNormal(location, scale, low=-2.0, high=2.0)
            truncated = TruncatedNormal(location, scale, low=-1.0, high=1.0)
            masked = MaskedCategorical(logits=logits, mask=mask)
            best = mask.int().argmax(-1)
            return (
                squashed.log_prob(y), squashed.deterministic_sample, truncated.log_prob(y),
                masked.log_prob(best), masked.mode,
            )  # fmt: skip

    def make(n: int) -> tuple[torch.Tensor, ...]:
        mask = torch.rand(n, 4) < 0.6
        mask[:, 1] = True
        return torch.randn(n, 6), mask, 1.8 * torch.rand(n, 2) - 0.9

    return Program(Distributions(), make)


def torchrl__clipped_loss() -> Program:
    from tensordict import TensorDict
    from tensordict.nn import NormalParamExtractor, TensorDictModule
    from torchrl.modules import ProbabilisticActor, TanhNormal, ValueOperator
    from torchrl.objectives import ClipPPOLoss

    class Loss(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            net = nn.Sequential(nn.Linear(6, 4), NormalParamExtractor())
            actor = ProbabilisticActor(
                TensorDictModule(net, in_keys=["observation"], out_keys=["loc", "scale"]),
                in_keys=["loc", "scale"], distribution_class=TanhNormal, return_log_prob=True,
            )  # fmt: skip
            critic = ValueOperator(nn.Linear(6, 1), in_keys=["observation"])
            self.ppo = ClipPPOLoss(actor, critic, entropy_bonus=False)

        def forward(self, *args: torch.Tensor) -> Any:
            names = "observation", "action", "action_log_prob", "advantage", "value_target"
            data = TensorDict(dict(zip(names, args, strict=True)), batch_size=args[0].shape[:1])
            losses = self.ppo(data)
            return losses["loss_objective"], losses["loss_critic"], losses["clip_fraction"]

    def make(n: int) -> tuple[torch.Tensor, ...]:
        return (
            torch.randn(n, 6), 1.8 * torch.rand(n, 2) - 0.9, torch.randn(n), torch.randn(n, 1),
            torch.randn(n, 1),
        )  # fmt: skip

    return Program(Loss(), make, loss=lambda losses: losses[0] + losses[1])
