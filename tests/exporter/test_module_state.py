"""An export, even a failed one, leaves the module and the arguments unchanged."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.export import Dim

from ortable import ExportOptions, to_onnx
from ortable.errors import ExportError

from .helpers import assert_same

X = torch.rand(6, 3)
CAPTURE_SETTINGS = [{"strict": False}, {"strict": True}, {"fallback": True, "tracing": True}]


class LazyBuffer(torch.nn.Module):
    """A module that creates a buffer at its first call."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(3, 3)

    def forward(self, x):
        if not hasattr(self, "mask"):
            self.register_buffer("mask", torch.ones(3) * 2, persistent=False)
        return self.linear(x) * self.mask


class StatefulModule(torch.nn.Module):
    """A module that modifies its attributes, lists and dicts."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = LazyBuffer()
        self.steps, self.table, self.seen = 0, None, {"calls": []}

    def forward(self, x):
        if self.table is None:
            self.table = torch.arange(3.0)
        self.steps += 1
        self.seen["calls"].append("call")
        return self.inner(x) * self.table


class FailingModule(LazyBuffer):
    def forward(self, x):
        super().forward(x)
        self.extra = torch.nn.Linear(3, 3)
        raise ValueError("bad thing")


def read_state(module: torch.nn.Module) -> list[Any]:
    state = []
    for path, layer in module.named_modules():
        public = {name: value for name, value in vars(layer).items() if not name.startswith("_")}
        tensors = {**layer._parameters, **layer._buffers}
        values = {name: (id(t), t.requires_grad, dict(vars(t))) for name, t in tensors.items()}
        hooks = len(layer._forward_hooks), len(layer._forward_pre_hooks)
        state.append((path, str(public), values, sorted(layer._non_persistent_buffers_set), hooks))
    return state


@pytest.mark.parametrize("settings", CAPTURE_SETTINGS)
@pytest.mark.parametrize("make", [LazyBuffer, StatefulModule])
def test_the_second_export_is_the_first(make: Any, settings: dict[str, Any]) -> None:
    module, options = make(), ExportOptions(**settings)
    module.linear = torch.nn.Linear(3, 3).requires_grad_(False)
    original = read_state(module)
    first = to_onnx(module, (X,), export_options=options)
    assert read_state(module) == original
    assert [value.name for value in first.graph.input] == ["x"]
    assert_same(first, module, (X,))
    second = to_onnx(module, (X,), export_options=options)
    assert first.SerializeToString() == second.SerializeToString()


@pytest.mark.parametrize("settings", CAPTURE_SETTINGS)
def test_an_export_that_fails_leaves_no_fake_tensors(settings: dict[str, Any]) -> None:
    module = FailingModule()
    original = read_state(module)
    with pytest.raises(ExportError):
        to_onnx(module, (X,), export_options=ExportOptions(**settings))
    assert read_state(module) == original


@pytest.mark.parametrize("strict", [False, True])
def test_arguments_are_not_marked_as_dynamic(strict: bool) -> None:
    x, options = torch.rand(6, 3), ExportOptions(strict=strict)
    dynamic = to_onnx(
        LazyBuffer(), (x,), dynamic_shapes={"x": {0: Dim.DYNAMIC}}, export_options=options
    )
    assert dynamic.graph.input[0].type.tensor_type.shape.dim[0].dim_param
    assert vars(x) == {}
    static = to_onnx(LazyBuffer(), (x,), export_options=options)
    assert [dim.dim_value for dim in static.graph.input[0].type.tensor_type.shape.dim] == [6, 3]
