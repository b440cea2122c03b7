"""A registry of checks of torch's private interfaces, with shared helpers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from ortable.compat import torch as compat

CHECKS: dict[str, tuple[str, Callable[[], Any]]] = {}
ADD = torch.ops.aten.add.Tensor


def expects(name: str, claim: str) -> Callable[[Callable[[], Any]], Callable[[], Any]]:
    """Register a check of a name, which raises or returns False where torch has changed."""

    def register(check: Callable[[], Any]) -> Callable[[], Any]:
        assert name not in CHECKS, name
        CHECKS[name] = claim, check
        return check

    return register


def expect(name: str, claim: str, check: Callable[[], Any]) -> None:
    expects(name, claim)(check)


def subclass_of(name: str, methods: tuple[str, ...]) -> Callable[[], bool]:
    return lambda: all(hasattr(getattr(compat, name), method) for method in methods)


class Model(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + 1


def exported_program(**dynamic: Any) -> torch.export.ExportedProgram:
    return torch.export.export(Model(), (torch.ones(3, 2),), **dynamic)


def symbolic() -> Any:
    program = exported_program(dynamic_shapes={"x": {0: torch.export.Dim("n", max=9)}})
    placeholder = next(n for n in program.graph.nodes if n.op == "placeholder")
    return program, placeholder.meta["val"].shape[0]
