"""An export leaves the module and the arguments as they were, also when it fails: the next export
gives the same model."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.export import Dim

from ortable import ExportOptions, to_onnx
from ortable.errors import ExportError

from .helpers import assert_same

X = torch.rand(6, 3)
WAYS = [{"strict": False}, {"strict": True}, {"fallback": True, "tracing": True}]


class Registers(torch.nn.Module):
    """Makes a buffer at the first call."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(3, 3)

    def forward(self, x):
        if not hasattr(self, "mask"):
            self.register_buffer("mask", torch.ones(3) * 2, persistent=False)
        return self.linear(x) * self.mask


class Remembers(torch.nn.Module):
    """Keeps results in attributes, lists and dicts."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = Registers()
        self.steps, self.table, self.seen = 0, None, {"calls": []}

    def forward(self, x):
        if self.table is None:
            self.table = torch.arange(3.0)
        self.steps += 1
        self.seen["calls"].append("call")
        return self.inner(x) * self.table


class Breaks(Registers):
    def forward(self, x):
        super().forward(x)
        self.extra = torch.nn.Linear(3, 3)
        raise ValueError("bad thing")


def state(module: torch.nn.Module) -> list[Any]:
    found = []
    for path, each in module.named_modules():
        own = {name: value for name, value in vars(each).items() if not name.startswith("_")}
        tensors = {**each._parameters, **each._buffers}
        kept = {name: (id(t), t.requires_grad, dict(vars(t))) for name, t in tensors.items()}
        hooks = len(each._forward_hooks), len(each._forward_pre_hooks)
        found.append((path, str(own), kept, sorted(each._non_persistent_buffers_set), hooks))
    return found


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("make", [Registers, Remembers])
def test_the_second_export_is_the_first(make: Any, way: dict[str, Any]) -> None:
    module, options = make(), ExportOptions(**way)
    module.linear = torch.nn.Linear(3, 3).requires_grad_(False)
    before = state(module)
    first = to_onnx(module, (X,), export_options=options)
    assert state(module) == before
    assert [value.name for value in first.graph.input] == ["x"]
    assert_same(first, module, (X,))
    second = to_onnx(module, (X,), export_options=options)
    assert first.SerializeToString() == second.SerializeToString()


@pytest.mark.parametrize("way", WAYS)
def test_an_export_that_fails_leaves_no_fake_tensors(way: dict[str, Any]) -> None:
    module = Breaks()
    before = state(module)
    with pytest.raises(ExportError):
        to_onnx(module, (X,), export_options=ExportOptions(**way))
    assert state(module) == before


@pytest.mark.parametrize("strict", [False, True])
def test_arguments_are_not_marked_as_dynamic(strict: bool) -> None:
    x, options = torch.rand(6, 3), ExportOptions(strict=strict)
    marked = to_onnx(
        Registers(), (x,), dynamic_shapes={"x": {0: Dim.DYNAMIC}}, export_options=options
    )
    assert marked.graph.input[0].type.tensor_type.shape.dim[0].dim_param
    assert vars(x) == {}
    plain = to_onnx(Registers(), (x,), export_options=options)
    assert [dim.dim_value for dim in plain.graph.input[0].type.tensor_type.shape.dim] == [6, 3]
