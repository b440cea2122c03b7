"""A cast to float16 that the program makes is not lost between operators of float32."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

import ortable

# to the right of 1 by less than float16 knows, a number that becomes 0, two that become infinite
X = torch.tensor([1.0001, 1e-9, 1e10, 3e38, 2.7])


@pytest.mark.parametrize(
    "fn",
    [
        lambda x: x.half() > 1,
        lambda x: x.to(torch.float16) == 0,
        lambda x: x.double().half().isfinite(),
        lambda x: x.half().nan_to_num(),
        lambda x: x.type_as(x.half()) - 1,
        lambda x: torch.where(x.half() == 0, 1.0, 1 / x.half()),
        lambda x: x[0].half() > 1,
        lambda x: (x.clamp(max=70000).long() * 1025).half() == 2048,
        lambda x: x.long().clamp(max=70000).half().isfinite(),
        lambda x: torch.cond(x.sum() > 0, lambda x: x.half() > 1, lambda x: x.half() < 1, (x,)),
    ],
)
@pytest.mark.parametrize("rewrites", ["all", "none"])
def test_a_cast_to_float16_rounds(fn: Callable[[torch.Tensor], torch.Tensor], rewrites: str):
    compiled = torch.compile(fn, backend="ortable", options={"rewrites": rewrites})
    assert torch.equal(compiled(X), fn(X))


def test_only_casts_that_a_node_reads_and_for_onnxruntime_only():
    class Cast(torch.nn.Module):
        def forward(self, x):
            return x.half(), x.exp().half() + 1

    for target, count in (("onnxruntime", 1), (None, 0)):
        model = ortable.to_onnx(Cast(), (X,), target=target)
        assert [node.op_type for node in model.graph.node].count("Reshape") == count
