"""Models of quantization-aware training become QuantizeLinear and DequantizeLinear."""

from __future__ import annotations

import copy
from collections import Counter
from typing import Any

import pytest
import torch
from torch import nn
from torch.ao import quantization as observers

import ortable
from ortable.errors import ExportError


class Network(nn.Module):
    """A convolution and a linear layer; ``fakes`` quantizes activations and weights."""

    def __init__(self, **settings: Any) -> None:
        super().__init__()
        self.conv, self.linear = nn.Conv2d(3, 4, 3), nn.Linear(4, 2)
        fused = observers.FusedMovingAvgObsFakeQuantize
        self.fakes = nn.ModuleList(fused(**settings) for _ in range(3))
        per_channel = observers.fused_per_channel_wt_fake_quant_range_neg_127_to_127
        self.weights = nn.ModuleList(per_channel() for _ in range(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x, conv, linear = self.fakes[0](x), self.conv, self.linear
        x = torch.conv2d(x, self.weights[0](conv.weight), conv.bias).relu()
        x = self.fakes[1](x).mean((2, 3))
        return self.fakes[2](nn.functional.linear(x, self.weights[1](linear.weight), linear.bias))


def make_trained(observe: bool = False, **settings: Any) -> Network:
    torch.manual_seed(0)
    network = Network(**settings)
    for _ in range(4):
        network(torch.randn(2, 3, 6, 6))
    if not observe:
        network.apply(observers.disable_observer)
    return network.eval()


def count_nodes(program: Any) -> Counter[str]:
    return Counter(node.op_type for node in program.model.graph.node)


@pytest.mark.parametrize(
    ("settings", "clips"),
    [
        ({"quant_min": 0, "quant_max": 255, "dtype": torch.quint8}, 0),
        ({"quant_min": 0, "quant_max": 127, "dtype": torch.quint8}, 3),
        ({"quant_min": -128, "quant_max": 127, "dtype": torch.qint8}, 0),
    ],
)
def test_observers_that_are_off_become_pairs(settings, clips) -> None:
    network = make_trained(**settings)
    example = (torch.randn(2, 3, 6, 6),)
    program = ortable.export(network, example, dynamic_shapes=({0: "batch"},))
    counts = count_nodes(program)
    assert counts["DequantizeLinear"] == 5 and counts["Round"] == 0 and counts["Clip"] == clips
    for batch in (2, 5):
        x = torch.randn(batch, 3, 6, 6)
        torch.testing.assert_close(program(x), network(x))
    source = torch.export.export(network, example)
    nodes = [str(node.target) for node in source.graph.nodes]
    torch.testing.assert_close(ortable.export(source)(*example), network(*example))
    assert [str(node.target) for node in source.graph.nodes] == nodes  # the program is unchanged


def test_fake_quantization_that_is_off_does_nothing() -> None:
    network = make_trained()
    network.apply(observers.disable_fake_quant)
    x = torch.randn(2, 3, 6, 6)
    program = ortable.export(network, (x,))
    assert not count_nodes(program) & Counter(["QuantizeLinear", "DequantizeLinear"])
    torch.testing.assert_close(program(x), network(x))


def test_an_observer_that_is_on_is_refused() -> None:
    network = make_trained(observe=True)
    before = copy.deepcopy(network.state_dict())
    with pytest.raises(ExportError, match=r"observer .* is on .*disable_observer"):
        ortable.export(network, (torch.randn(2, 3, 6, 6),))
    torch.testing.assert_close(network.state_dict(), before)


def test_arguments_of_an_observer_may_be_given_by_name() -> None:
    class ByName(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fake = observers.fused_per_channel_wt_fake_quant_range_neg_127_to_127()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            fake = self.fake
            flags = (fake.observer_enabled, fake.fake_quant_enabled)
            ranges = (fake.activation_post_process.min_val, fake.activation_post_process.max_val)
            return torch.fused_moving_avg_obs_fake_quant(
                x, *flags, *ranges, fake.scale, fake.zero_point, 0.01,
                quant_min=-127, quant_max=127, ch_axis=0, per_row_fake_quant=True,
                symmetric_quant=True,
            )  # fmt: skip

    module, x = ByName(), torch.randn(3, 4)
    module.fake(x)
    module.apply(observers.disable_observer)
    program = ortable.export(module, (x,))
    torch.testing.assert_close(program(x), module(x))
    assert program(x).ne(x).any()


def test_scales_that_are_older_than_the_ranges_are_refused() -> None:
    network = make_trained(observe=True)
    network.apply(observers.disable_fake_quant)
    network(torch.randn(2, 3, 6, 6) * 9)  # torch computes no scales while it only observes
    network.apply(observers.enable_fake_quant).apply(observers.disable_observer)
    x = torch.randn(2, 3, 6, 6)
    with pytest.raises(ExportError, match="older than its observed ranges"):
        ortable.export(network, (x,))
    expected = network(x)
    torch.testing.assert_close(ortable.export(network, (x,))(x), expected)


class Direct(nn.Module):
    def __init__(self, low: int, high: int, zero: int, scale: float = 0.05) -> None:
        super().__init__()
        self.settings = (scale, zero, low, high)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.fake_quantize_per_tensor_affine(x, *self.settings)


@pytest.mark.parametrize(
    ("module", "opset", "is_pair"),
    [
        (Direct(-8, 7, 1), 18, True),
        (Direct(0, 65535, 300), 21, True),
        (Direct(0, 65535, 300), 18, False),
        (Direct(-100_000, 100_000, 0), 21, False),
    ],
)
def test_where_ranges_and_zero_points_allow_a_pair(module, opset, is_pair) -> None:
    x = torch.randn(4, 5) * 20
    with ortable.bypass_export_some_errors():
        program = ortable.export(module, (x,), dynamic_shapes=({0: "n"},), target_opset=opset)
    assert bool(count_nodes(program)["QuantizeLinear"]) == is_pair
    for rows in (4, 7):
        x = torch.randn(rows, 5) * 20
        torch.testing.assert_close(program(x), module(x))
