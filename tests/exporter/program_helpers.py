"""A small module and a comparison with eager in values, types and containers."""

from __future__ import annotations

import copy
import dataclasses
from typing import Any

import torch

from ortable import OnnxProgram

X = (torch.arange(12.0).reshape(4, 3) / 7,)


def module_of(forward: Any, **members: Any) -> torch.nn.Module:
    """Return a module whose forward is a function of (self, ...)."""
    module = type("Made", (torch.nn.Module,), {"forward": forward})()
    for name, value in members.items():
        if isinstance(value, torch.Tensor):
            module.register_buffer(name, value)
        else:
            setattr(module, name, value)
    return module


def assert_like(result: Any, expected: Any) -> None:
    """Check that two results have equal structure, types and values."""
    assert type(result) is type(expected) or isinstance(expected, torch.nn.Parameter)
    if isinstance(expected, torch.Tensor):
        assert (result.dtype, result.shape, result.device) == (
            expected.dtype, expected.shape, expected.device,
        )  # fmt: skip
        torch.testing.assert_close(result, expected, equal_nan=True)
    elif isinstance(expected, dict):
        assert list(result) == list(expected)
        for key in expected:
            assert_like(result[key], expected[key])
    elif isinstance(expected, (list, tuple)):
        assert len(result) == len(expected)
        for got_item, expected_item in zip(result, expected, strict=True):
            assert_like(got_item, expected_item)
    elif dataclasses.is_dataclass(expected):
        assert_like(vars(result), vars(expected))
    else:
        assert result == expected


def check(module: Any, program: OnnxProgram, *args: Any, **kwargs: Any) -> Any:
    """Check that the program and the module return the same and modify the arguments alike."""
    program_call, eager_call = copy.deepcopy((args, kwargs)), copy.deepcopy((args, kwargs))
    with torch.no_grad():
        expected = copy.deepcopy(module)(*eager_call[0], **eager_call[1])
    result = program(*program_call[0], **program_call[1])
    assert_like(result, expected)
    assert_like(list(program_call), list(eager_call))
    return result


class Small(torch.nn.Module):
    """A linear layer and ReLU."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.linear = torch.nn.Linear(3, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.linear(x))
