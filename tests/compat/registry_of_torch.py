"""The checks of private interfaces of torch by name, and what several of them need. Filled by
checks_of_torch and checks_of_compile, read by the tests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from ortable.compat import torch as compat

CHECKS: dict[str, tuple[str, Callable[[], Any]]] = {}
ADD = torch.ops.aten.add.Tensor


def expects(name: str, what: str) -> Callable[[Callable[[], Any]], Callable[[], Any]]:
    """Registers the check of a name: it raises or returns False where torch is another."""

    def register(check: Callable[[], Any]) -> Callable[[], Any]:
        assert name not in CHECKS, name
        CHECKS[name] = what, check
        return check

    return register


def expect(name: str, what: str, check: Callable[[], Any]) -> None:
    expects(name, what)(check)


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
