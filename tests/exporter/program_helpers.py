"""What the tests of OnnxProgram share: a small module, and a call that is compared with eager's
in values, types and containers. Called by test_program*.py."""

from __future__ import annotations

import copy
import dataclasses
from typing import Any

import torch

from ortable import OnnxProgram

X = (torch.arange(12.0).reshape(4, 3) / 7,)


def module_of(forward: Any, **members: Any) -> torch.nn.Module:
    """A module whose forward is a function of (self, ...)."""
    made = type("Made", (torch.nn.Module,), {"forward": forward})()
    for name, value in members.items():
        if isinstance(value, torch.Tensor):
            made.register_buffer(name, value)
        else:
            setattr(made, name, value)
    return made


def assert_like(got: Any, expected: Any) -> None:
    """Equal structure, types and values."""
    assert type(got) is type(expected) or isinstance(expected, torch.nn.Parameter)
    if isinstance(expected, torch.Tensor):
        assert (got.dtype, got.shape, got.device) == (
            expected.dtype, expected.shape, expected.device,
        )  # fmt: skip
        torch.testing.assert_close(got, expected, equal_nan=True)
    elif isinstance(expected, dict):
        assert list(got) == list(expected)
        for key in expected:
            assert_like(got[key], expected[key])
    elif isinstance(expected, (list, tuple)):
        assert len(got) == len(expected)
        for one, other in zip(got, expected, strict=True):
            assert_like(one, other)
    elif dataclasses.is_dataclass(expected):
        assert_like(vars(got), vars(expected))
    else:
        assert got == expected


def check(module: Any, program: OnnxProgram, *args: Any, **kwargs: Any) -> Any:
    """The program returns what the module does, and leaves the arguments as the module does."""
    ours, theirs = copy.deepcopy((args, kwargs)), copy.deepcopy((args, kwargs))
    with torch.no_grad():
        expected = copy.deepcopy(module)(*theirs[0], **theirs[1])
    got = program(*ours[0], **ours[1])
    assert_like(got, expected)
    assert_like(list(ours), list(theirs))
    return got


class Small(torch.nn.Module):
    """A linear layer and one that is not."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.linear = torch.nn.Linear(3, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.linear(x))
