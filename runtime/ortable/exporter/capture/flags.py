"""Conditions on sizes that a model gives to operators as flags: ``torch.ops.lib.f(x, n > 4)``.
torch's C++ code decides them where nobody can tell them from conditions of kernels; here they are
decided before, so that guards.py finds who asked. Called by strategies.py around torch.export."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from ortable.compat.torch import OpOverload, OpOverloadPacket


class DecidedFlags(TorchFunctionMode):
    """In the block an operator that is called gets bools for its flags. A condition that it takes
    as a number stays one: ``aten::_assert_scalar`` keeps it for the run."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        conditions = any(isinstance(each, torch.SymBool) for each in (*args, *kwargs.values()))
        if conditions and isinstance(func, (OpOverload, OpOverloadPacket)):
            flags = set(_flags(func))
            args = [_decided(value) if i in flags else value for i, value in enumerate(args)]
            kwargs = {k: _decided(value) if k in flags else value for k, value in kwargs.items()}
        return func(*args, **kwargs)


def _flags(operator: Any) -> Iterator[int | str]:
    """Places and names of the arguments that are bools, of any overload."""
    overloads: Mapping[str, Any] = {"": operator}
    if isinstance(operator, OpOverloadPacket):
        overloads = {name: getattr(operator, name) for name in operator.overloads()}
    for overload in overloads.values():
        for place, argument in enumerate(overload._schema.arguments):
            if argument.type.kind() == "BoolType":
                yield from (place, argument.name)


def _decided(value: Any) -> Any:
    return bool(value) if isinstance(value, torch.SymBool) else value
