"""What the table places in torch in training graphs, and the small partitions that join it."""

from __future__ import annotations

import copy

import torch
from torch import nn

PLACED = {
    "aten::convolution_backward",
    "aten::max_pool2d_with_indices_backward",
    "aten::native_batch_norm_backward",
}


def backward_records(model, *arguments):
    """Records of the backward of a compiled model, whose gradients equal eager's."""
    storage = {}
    other = copy.deepcopy(model)
    model(*arguments).square().sum().backward()
    compiled = torch.compile(other, backend="ortable", options={"storage": storage})
    compiled(*arguments).square().sum().backward()
    for name, parameter in model.named_parameters():
        ours = other.get_parameter(name).grad
        torch.testing.assert_close(ours, parameter.grad, rtol=1e-3, atol=1e-4)
    return [record for record in storage["instance"] if record["kind"] == "backward"]


def test_elementwise_operators_between_gradients_of_convolutions_join_them():
    layers = [nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(4, 4, 3)]
    records = backward_records(nn.Sequential(*layers), torch.randn(2, 3, 14, 14))
    assert len(records) == 1
    assert records[0]["onnx"] is None
    placement = {p.operator: p for p in records[0]["placement"]}
    assert placement.keys() >= PLACED
    assert all(p.where == "torch" and p.why for p in placement.values())
    assert "worth a session" in placement["aten::threshold_backward"].why
    assert "worth a session" not in placement["aten::convolution_backward"].why


def test_products_keep_their_session():
    layers = [nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(144, 16), nn.Linear(16, 5)]
    records = backward_records(nn.Sequential(*layers), torch.randn(2, 3, 8, 8))
    assert len(records) == 1
    kinds = [node.op_type for node in records[0]["onnx"].graph.node]
    assert any(kind in ("Gemm", "MatMul") for kind in kinds)
    where = {p.operator: p.where for p in records[0]["placement"]}
    assert where["aten::mm"] == "onnx"
    assert where["aten::convolution_backward"] == "torch"


def test_graphs_without_such_operators_stay_whole():
    layers = [nn.Linear(4, 8), nn.ReLU(), nn.LayerNorm(8), nn.Linear(8, 2)]
    records = backward_records(nn.Sequential(*layers), torch.randn(5, 4))
    assert len(records) == 1
    assert all(p.where == "onnx" for p in records[0]["placement"])
