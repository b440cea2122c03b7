"""In training graphs, some operators and small partitions next to them run in torch."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn


def train_and_get_records(model, *arguments):
    """Return the records of a compiled model after checking its gradients against eager's."""
    storage = {}
    trained = copy.deepcopy(model)
    model(*arguments).square().sum().backward()
    compiled = torch.compile(trained, backend="ortable", options={"storage": storage})
    compiled(*arguments).square().sum().backward()
    for name, parameter in model.named_parameters():
        gradient = trained.get_parameter(name).grad
        torch.testing.assert_close(gradient, parameter.grad, rtol=1e-3, atol=1e-4)
    return storage["instance"]


def test_a_network_of_convolutions_trains_in_torch_with_the_backward_of_eager():
    layers = [nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(4, 4, 3)]
    (record,) = train_and_get_records(nn.Sequential(*layers), torch.randn(2, 3, 14, 14))
    assert record["kind"] == "forward"
    assert record["onnx"] is None
    placement = {p.operator: p for p in record["placement"]}
    assert all(p.where == "torch" and p.why for p in placement.values())
    assert "worth a session" in placement["aten::relu"].why
    assert "weights change" in placement["aten::convolution"].why


@pytest.mark.parametrize("width", [16, 2048])
def test_products_keep_their_session_where_they_take_long(width):
    layers = [nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(144, width)]
    model = nn.Sequential(*layers, nn.Linear(width, 512))
    forward, *backward_records = train_and_get_records(model, torch.randn(128, 3, 8, 8))
    where = {p.operator: p.where for p in forward["placement"]}
    assert where["aten::convolution"] == "torch"
    assert where["aten::addmm"] == ("torch" if width == 16 else "onnx")
    assert [record["kind"] for record in backward_records] == ([] if width == 16 else ["backward"])
    for record in backward_records:
        operators = [node.op_type for node in record["onnx"].graph.node]
        assert any(operator in ("Gemm", "MatMul") for operator in operators)
        where = {p.operator: p.where for p in record["placement"]}
        assert where["aten::mm"] == "onnx"
        assert where["aten::convolution_backward"] == "torch"


def test_patches_are_products():
    class Embedding(nn.Module):
        def __init__(self):
            super().__init__()
            self.patches, self.head = nn.Conv2d(3, 8, 4, 4), nn.Linear(8, 5)

        def forward(self, x):
            return self.head(self.patches(x).flatten(2).transpose(1, 2))

    records = train_and_get_records(Embedding(), torch.randn(2, 3, 8, 12))
    assert [record["kind"] for record in records] == ["forward", "backward"]
    assert all(p.where == "onnx" for record in records for p in record["placement"])
    assert "Conv" not in [node.op_type for node in records[1]["onnx"].graph.node]


@pytest.mark.parametrize(
    ("conv", "size"),
    [
        (nn.Conv2d(3, 8, 4, 4), 9),  # a row is left over
        (nn.Conv2d(3, 8, 4, 3), 10),  # kernels overlap
        (nn.Conv2d(3, 8, 4, 4, padding=2), 8),
        (nn.Conv2d(4, 8, 4, 4, groups=2), 8),
        (nn.Conv2d(3, 8, 2, 2, dilation=2), 9),
    ],
)
def test_other_convolutions_are_none_of_patches(conv, size):
    (record,) = train_and_get_records(conv, torch.randn(2, conv.in_channels, size, size))
    assert {p.where for p in record["placement"]} == {"torch"}


def test_an_input_that_needs_a_gradient_keeps_the_kernel_of_torch():
    records = train_and_get_records(
        nn.Sequential(nn.Linear(8, 8), nn.Conv2d(3, 4, 2, 2)), torch.randn(1, 3, 8, 8)
    )
    where = {p.operator: p.where for record in records for p in record["placement"]}
    assert where["aten::convolution_backward"] == "torch"


def test_graphs_without_such_operators_stay_whole():
    layers = [nn.Linear(4, 8), nn.ReLU(), nn.LayerNorm(8), nn.Linear(8, 2)]
    records = train_and_get_records(nn.Sequential(*layers), torch.randn(5, 4))
    assert len(records) == 2
    assert all(p.where == "onnx" for record in records for p in record["placement"])
